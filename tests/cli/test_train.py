"""Train, evaluate, show, compare and resume by the command line; settings and exit codes."""

import csv
import json
import shutil

import numpy as np
import pytest
import yaml
from safetensors.torch import load_file
from torch import equal

from regard.data.synthetic.phrases import phrases
from regard.errors import ConfigError


def weights(run):
    return load_file(run / "model.safetensors")


def test_training_says_what_came_of_it_and_takes_no_taken_folder(regard, run, files):
    result = regard("train", "translation", "--source", files / "train.en", "--target", files / "train.fr",
                    "--run", run, code=1)  # fmt: skip
    assert "is there already" in result.stderr


def test_a_resumed_run_has_the_weights_of_an_unbroken_one(regard, run, tmp_path):
    """B33: killed after its checkpoint of step 8 and resumed from there, the weights are the same bit for bit."""
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    shutil.rmtree(copy / "checkpoints" / "step-00000012")
    (copy / "model.safetensors").unlink()
    regard("train", "--resume", copy, "--quiet")
    assert weights(copy).keys() == weights(run).keys()
    assert all(equal(one, weights(run)[name]) for name, one in weights(copy).items())


def test_resume_continues_with_more_steps_and_refuses_another_run(regard, run, tmp_path):
    """B33: options given on resume are honoured or refused aloud."""
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    refused = regard("train", "--resume", copy, "model.dropout=0.5", "seed=6", code=2).stderr
    assert "model.dropout: saved 0.0, now 0.5" in refused and "seed: saved 5, now 6" in refused
    regard("train", "--resume", copy, "training.steps=14", "--quiet")
    assert json.loads((copy / "results.json").read_text())["steps"] == 14
    assert "steps: 14" in (copy / "config.yaml").read_text()
    regard("train", "--resume", copy, "--run", tmp_path, code=2)
    assert "no such folder" in regard("train", "--resume", tmp_path / "none", code=1).stderr


def test_wrong_settings_are_reported_all_at_once_before_anything_is_read(regard, tmp_path):
    result = regard("train", "translation", "--source", "none.de", "--target", "none.en", "--attention", "aditive",
                    "model.dropuot=0.1", "trainin.steps=5", "data.tokens=many", "--run", tmp_path / "run",
                    code=2)  # fmt: skip
    text = result.stderr
    assert "4 settings are wrong" in text and "Traceback" not in text
    assert "model.attention: no score is named 'aditive'. Did you mean 'additive'?" in text
    assert "model.dropuot: no such setting. Did you mean 'dropout'?" in text
    assert "trainin: no such setting. Did you mean 'training'?" in text
    assert "data.tokens: " in text and "'many'" in text
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["--attention", "dot", "model.decoder_dim=23"], "decoder_dim (23) must be twice encoder_dim (256)"),
        (["--attention", "feed_forward"], "model.attention_options.positions=50"),
        (["--attention", "none", "search.coverage_penalty=0.2"], "search.coverage_penalty counts attention"),
        (["training.monitor=blue"], "training.monitor: no measure is named 'blue'. Did you mean 'bleu'?"),
        (["training.monitor=bleu"], "set training.better=max"),
    ],
)
def test_settings_that_fit_no_model_are_refused_before_a_folder_is_taken(regard, files, tmp_path, settings, message):
    result = regard("train", "translation", "--source", files / "test.en", "--target", files / "test.fr",
                    "--run", tmp_path / "run", "data.tokenizer=words", *settings, code=2)  # fmt: skip
    assert message in result.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["train"], 2, "say what to train"),
        (["train", "translaton"], 2, "no task is named 'translaton'. Did you mean 'translation'?"),
        (["train", "translation"], 2, "no pairs to train on"),
        (["train", "none.yaml"], 2, "none.yaml: no such file"),
        (["train", "translation", "model.dropout"], 2, "'model.dropout' is not a setting"),
        (["train", "translation", "--source", "none.de", "--target", "none.en"], 1, "none.de: no such file"),
        (["train", "translation", "--source", "none.de"], 2, "`source` is given without `target`"),
        (["compare", "none"], 1, "none: no such folder"),
        (["reproduce"], 2, "name a recipe"),
        (["reproduce", "demo-en-xx"], 2, "no recipe is named"),
        (["reproduce", "demo-en-fr", "--seeds", "0,x"], 2, "expected whole numbers"),
        (
            ["reproduce", "multi30k-bahdanau-short"],
            1,
            "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
        ),
        (["worked", "W99"], 2, "no worked example is named 'W99'"),
        (["worked", "W2", "--scroes", "1"], 2, "Did you mean 'scores'?"),
        (["family", "bahdanu"], 2, "Did you mean 'bahdanau'?"),
        (["explain", "--score", "aditive"], 2, "Did you mean 'additive'?"),
        (["explain", "--query", "2,x"], 2, "sizes separated by commas"),
        (["explain", "--key", "2,3,4,5"], 1, "(2, 3, 4, 5)"),
        (["explain", "--mask", "casual"], 2, "Did you mean 'causal'?"),
        (["schema", "translations"], 2, "Did you mean 'translation'?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_called_wrongly_or_failed(regard, monkeypatch, tmp_path, arguments, code, message):
    """Exit code 2 for what was called wrongly, 1 for what failed; the message says what to do, without a traceback."""
    monkeypatch.chdir(tmp_path)
    result = regard(*arguments, code=code)
    assert message in result.stderr and "Traceback" not in result.stderr
    assert not list(tmp_path.iterdir())


def test_debug_shows_the_traceback(regard):
    with pytest.raises(ConfigError, match="say what to train"):
        regard("train", "--debug")
    with pytest.raises(ConfigError, match="say what to train"):
        regard("--debug", "train")
    regard("train", code=2)  # what was said before an earlier command is forgotten


def test_a_taken_folder_is_refused_before_anything_is_announced(regard, tmp_path):
    (tmp_path / "file").write_text("")
    message = regard("demo", "--out", tmp_path, code=1).stderr
    assert "is there already" in message and "Learning" not in message


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("\n".join(["a", "", *"cdefghijk"]), "\n".join("xyzuvwxyzuv"), "with an empty side left out"),
        ("\n".join([*"abcdefghijk", "a " * 50]), "\n".join("xyzuvwxyzuvw"), "too long left out"),
    ],
    ids=["empty", "long"],
)
def test_training_data_with_empty_and_long_lines(regard, tmp_path, source, target, message):
    """B29, B32: an empty line or a long one leaves both sides out together, and training says which was the first."""
    (tmp_path / "a").write_text(source), (tmp_path / "b").write_text(target)
    result = regard("train", "translation", "--source", tmp_path / "a", "--target", tmp_path / "b", "--run",
                    tmp_path / "run", *TINIEST, "data.max_length=30")  # fmt: skip
    assert message in result.stderr and f"{tmp_path / 'a'}, line" in result.stderr


@pytest.mark.parametrize("content", ["", "\n"], ids=["0 bytes", "one break"])
def test_nothing_to_train_on_is_an_error(regard, tmp_path, content):
    """B29: files without any text."""
    (tmp_path / "a").write_text(content)
    result = regard("train", "translation", "--source", tmp_path / "a", "--target", tmp_path / "a", "--run",
                    tmp_path / "run", *TINIEST, code=1)  # fmt: skip
    assert "pairs" in result.stderr and "Traceback" not in result.stderr
    assert not (tmp_path / "run").exists()


TINIEST = ["training.steps=1", "model.embedding_dim=5", "model.encoder_dim=3", "model.decoder_dim=7",
           "model.attention_dim=3", "data.tokenizer=characters", "data.held_out=2"]  # fmt: skip


def test_a_settings_file_trains_and_so_does_a_recipe(regard, tmp_path):
    made = phrases(30, seed=1)
    lines = "".join(f"{pair.source}\t{pair.target}\n" for pair in made)
    (tmp_path / "pairs.tsv").write_text(lines, encoding="utf-8")
    file = tmp_path / "settings.yaml"
    file.write_text(f"task: translation\ndata:\n  tsv: {tmp_path / 'pairs.tsv'}\n", encoding="utf-8")
    printed = regard("train", file, *TINIEST, "--print-config").stdout
    file.write_text(printed, encoding="utf-8")
    result = regard("train", file, "--run", tmp_path / "run")
    assert "step 1" in result.stderr and "trained for 1 steps" in result.stdout
    config = yaml.safe_load(printed)
    config["data"]["tsv"] = "${data}/pairs.tsv"
    file.write_text(yaml.safe_dump({"name": "ours", "bands": [], "config": config}), encoding="utf-8")
    assert "--data DIR" in regard("train", file, code=2).stderr
    assert "trained for 1 steps" in regard("train", file, "--data", tmp_path, "--run", tmp_path / "again").stdout
    file.write_text("seed: 1\n")
    assert "task: translation" in regard("train", file, code=2).stderr


def test_evaluate_measures_and_compare_shows_it(regard, run, files, tmp_path):
    arguments = ["evaluate", run, "--source", files / "test.en", "--target", files / "test.fr"]
    predictions = tmp_path / "out.txt"
    printed = regard(*arguments, "--predictions", predictions).stdout
    assert predictions.read_text(encoding="utf-8") == regard("translate", run, files / "test.en").stdout
    entry = json.loads(
        regard(*arguments, "--links", files / "test.links", "--words", "tokenizer", "--format", "json").stdout
    )
    assert "nrefs:1|case:mixed" in printed and f"{entry['measures']['perplexity']:.2f}" in printed
    assert entry["pairs"] == 20 and set(entry["measures"]) == {"bleu", "chrf", "exact", "perplexity", "entropy", "aer"}
    assert "tok:13a" in entry["signatures"]["bleu"] and entry["measures"]["perplexity"] > 1
    assert 0 <= entry["measures"]["aer"] <= 1 and set(entry["baselines"]) == {"diagonal", "uniform"}
    assert sum(bucket["pairs"] for bucket in entry["lengths"]) == 20
    assert all(set(entry["measures"]) < set(bucket) for bucket in entry["lengths"])
    exact = sum(bucket["exact"] * bucket["pairs"] for bucket in entry["lengths"] if bucket["pairs"])
    assert exact / 20 == pytest.approx(entry["measures"]["exact"])
    assert {bucket["aer"] for bucket in entry["lengths"] if not bucket["pairs"]} <= {None}
    assert (
        min(bucket["perplexity"] for bucket in entry["lengths"] if bucket["pairs"]) <= entry["measures"]["perplexity"]
    )

    other = tmp_path / "other"
    shutil.copytree(run, other)
    (other / "config.yaml").write_text((run / "config.yaml").read_text().replace("seed: 5", "seed: 7"))
    (other / "results.json").unlink()
    compared = regard("compare", run, other).stdout.splitlines()
    assert compared[0].split() == ["run", str(run), str(other)]
    assert compared[2].split() == ["seed", "5", "7"]
    assert any(line.startswith("test.en bleu") for line in compared)
    assert any(line.startswith("steps") and line.endswith("not ended") for line in compared)
    summaries = json.loads(regard("compare", run, other, "--format", "json").stdout)
    assert (
        summaries[0]["seed"] == 5
        and summaries[1]["seed"] == 7
        and summaries[0]["test.en aer"] == pytest.approx(entry["measures"]["aer"])
    )


def test_evaluate_takes_the_held_out_pairs_without_files(regard, run):
    entry = json.loads(regard("evaluate", run, "--format", "json").stdout)
    best = json.loads((run / "results.json").read_text())["best"]
    assert entry["pairs"] == 7
    assert entry["measures"]["perplexity"] == pytest.approx(2.718281828 ** best["loss"], rel=1e-4)


def test_evaluate_scores_empty_lines_and_refuses_empty_files(regard, run, tmp_path):
    """B29: an empty hypothesis or reference counts as 0, never crashes; unequal files are told with both counts."""
    (tmp_path / "a").write_text("at noon\n\n"), (tmp_path / "b").write_text("à midi\nvide\n")
    entry = json.loads(regard("evaluate", run, "--source", tmp_path / "a", "--target", tmp_path / "b",
                              "--format", "json").stdout)  # fmt: skip
    assert entry["pairs"] == 2 and entry["measures"]["exact"] == 0
    (tmp_path / "a").write_text(""), (tmp_path / "b").write_text("")
    arguments = ["evaluate", run, "--source", tmp_path / "a", "--target", tmp_path / "b"]
    assert "no pairs" in regard(*arguments, code=1).stderr
    (tmp_path / "b").write_text("one\n")
    assert "has 0 lines" in regard(*arguments, code=1).stderr
    assert "--target together" in regard("evaluate", run, "--source", tmp_path / "a", code=2).stderr


def test_show_draws_in_the_terminal_and_into_files(regard, run, tmp_path):
    text = "at 7:25 PM"
    shown = regard("show", run, text).stdout
    assert "25" in shown and "</s>" in shown and "A weight is not an effect" in shown
    paths = [tmp_path / f"x.{ending}" for ending in ("html", "png", "svg", "json", "csv")]
    result = regard("show", run, text, *(argument for path in paths for argument in ("--out", path)))
    assert result.stdout == "" and all(path.stat().st_size > 100 and str(path) in result.stderr for path in paths)
    [matrix] = json.loads(paths[3].read_text(encoding="utf-8"))["matrices"]
    assert matrix["columns"] == ["at", "7", ":", "25", "PM", "</s>"]
    header = next(csv.reader(paths[4].open(encoding="utf-8-sig")))
    assert "25" in header


def test_show_reads_a_given_translation(regard, run, tmp_path):
    target = tmp_path / "x.json"
    regard("show", run, "for two days", "--target", "pendant deux jours", "--out", target, "--lang", "zh")
    content = json.loads(target.read_text(encoding="utf-8"))
    assert content["matrices"][0]["rows"] == ["pendant", "deux", "jours", "</s>"]
    assert "权重" in content["notes"][0]
    regard("show", run, "for two days", "--target", "pendant deux jours", "--out", target, "--units", "words")
    [words] = json.loads(target.read_text(encoding="utf-8"))["matrices"]
    assert (words["rows"], words["columns"]) == (["pendant", "deux", "jours"], ["for", "two", "days"])
    [whole] = content["matrices"]
    np.testing.assert_allclose(words["values"], np.array(whole["values"])[:3, :3], rtol=1e-6)


def test_show_refuses_what_it_cannot_draw(regard, run, tmp_path):
    """B29, B32: an empty line has nothing to show, a long one is cut and says so."""
    assert "the text is empty" in regard("show", run, "", code=1).stderr
    assert "Known: csv, html, json, png, svg" in regard("show", run, "a", "--out", tmp_path / "x.pdf", code=2).stderr
    assert "has 0 lines" in regard("show", run, "-", stdin="", code=2).stderr
    result = regard("show", run, "two " * 50, "--out", tmp_path / "x.json")
    assert "warning: 50 tokens" in result.stderr


def test_a_model_without_attention_says_that_there_is_nothing_to_show(regard, tmp_path):
    (tmp_path / "a").write_text("at noon\nfor two days\n" * 6)
    regard("train", "translation", "--source", tmp_path / "a", "--target", tmp_path / "a", "--attention", "none",
           "--run", tmp_path / "run", "-q", *TINIEST, "data.held_out=1")  # fmt: skip
    assert "has no attention" in regard("show", tmp_path / "run", "at noon", code=1).stderr
    entry = json.loads(regard("translate", tmp_path / "run", "at noon", "--format", "jsonl", "--align", "soft").stdout)
    assert entry["outputs"][0]["alignment"] is None


def test_the_ledger_the_family_and_the_worked_numbers_print(regard):
    recipe = "multi30k-bahdanau-short"
    assert recipe in regard("recipes").stdout == regard("reproduce", "--list").stdout
    assert "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6" in regard("recipes", recipe).stdout
    assert "Bahdanau" in regard("family").stdout and "加性" in regard("family", "bahdanau", "--lang", "zh").stdout
    assert "0.6838" in regard("worked", "W2").stdout and "一致" in regard("worked", "W2", "--lang", "zh").stdout
    own = regard("worked", "W2", "--scores=0, 0, 0, 0, 0, 0, 0").stdout
    assert "0.1429" in own and "0.6838" not in own  # seven equal weights
    # The fast path of dot products, with a C++ compiler and without.
    assert regard("explain", "--mask", "causal").stdout.startswith(("path: native", "path: fused"))
    assert regard("explain", "--query", "2,7,5").stdout.startswith("path: fused")  # the key is as the query
    sizes = ("--query", "1,8,16384,64", "--key", "1,8,16384,64")
    costly = regard("explain", *sizes, "--normalizer", "sparsemax", "--cost")
    assert "costs explicit: 550 (1,649 with gradients) billion operations" in costly.stdout  # 4 · 8 · 16,384² · 64
    explained = regard("explain", "--score", "additive(hidden_dim=7)", "--query", "2,3,5", "--key", "2,7,11").stdout
    assert "path: explicit" in explained and "'additive'" in explained
    schema = json.loads(regard("schema").stdout)
    assert schema["properties"]["seed"]["minimum"] == 0 and "RecurrentSettings" in schema["$defs"]


def test_outputs_are_compared_sentence_by_sentence(regard, run, files, tmp_path):
    """Runs translate, files are taken as they are; a perfect file is significantly above a model of twelve steps."""
    test = ["--source", files / "test.en", "--target", files / "test.fr"]
    shown = regard("compare", run, files / "test.fr", run, *test, "--samples", 60, "--quiet").stdout
    assert "20 pairs" in shown and "100.00 [100.00, 100.00]" in shown and "nrefs:1|bs:60|seed:12345" in shown
    assert f"BLEU above {run}: significant at 0.05 (p = 0.0164, 0.0328 after Holm's correction for 2" in shown
    assert f"{run} has the same BLEU as {run}: not significant at 0.05 (p = 1.0000" in shown
    (tmp_path / "out").write_text(regard("translate", run, files / "test.en").stdout, encoding="utf-8")
    test = ["--target", files / "test.fr", "--samples", 60, "--test", "ar", "--seed", 3, "--format", "json"]
    compared = json.loads(regard("compare", tmp_path / "out", files / "test.fr", *test).stdout)
    by_run, perfect = compared["measures"]["bleu"]
    assert f"{by_run['value']:.2f} [" in shown and by_run["p"] is None
    # All 20 sentences differ: of 2^20 swaps those of none and of all are ties.
    assert perfect["p"] == pytest.approx(1 / 61 + 2**-19) and perfect["significant"]
    assert "seed:3" in compared["signatures"]["bleu"]


def test_what_cannot_be_compared_is_said(regard, run, files):
    assert "give --target too" in regard("compare", run, run, "--source", files / "test.en", code=2).stderr
    assert "is a file" in regard("compare", run, files / "test.fr", code=2).stderr
    assert "give --source too" in regard("compare", run, run, "--target", files / "test.fr", code=2).stderr
    assert "at least two systems" in regard("compare", run, "--target", files / "test.fr", code=2).stderr
    message = regard("compare", files / "test.fr", files / "train.fr", "--target", files / "test.fr", code=1).stderr
    assert "train.fr has 130 lines, and there are 20 translations to compare with" in message


def test_w4_by_a_trained_translator(regard, run):
    text = regard("worked", "W4", "--run", run, "--target", "je t'aime").stdout
    assert text.startswith(f"W4  I love you → je t'aime, by {run}")
    made = json.loads(regard("worked", "w4", "--run", run, "--source", "at 7:30 PM", "--format", "json").stdout)
    assert [step["word"] for step in made["read"]][-1] == "</s>"
    assert all(len(step["context"]) == len(made["read"][0]["state"]) for step in made["written"])
    assert "regard worked W4 --run" in regard("worked", "W5", "--run", run, code=2).stderr
    assert "Did you mean 'source'?" in regard("worked", "W4", "--run", run, "--sorce", "x", code=2).stderr
    assert "name its run too" in regard("worked", "W4", "--format", "json", code=2).stderr
