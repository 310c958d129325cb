"""`regard score` and `regard align` on a tiny run."""

import json
import math

import pytest


@pytest.fixture(scope="module")
def texts(files):
    return files / "test.en", files / "test.fr"


def test_score_is_one_number_a_line(regard, run, texts, tmp_path):
    result = regard("score", run, *texts)
    numbers = [float(line) for line in result.stdout.splitlines()]
    assert len(numbers) == 20 and all(number < 0 for number in numbers)
    entries = [json.loads(line) for line in regard("score", run, *texts, "--format", "jsonl", "-q").stdout.splitlines()]
    assert [one["line"] for one in entries] == list(range(1, 21))
    for number, one in zip(numbers, entries, strict=True):
        assert len(one["pieces"]) == len(one["log_probabilities"]) and one["pieces"][-1] == "</s>"
        assert number == pytest.approx(one["log_probability"], abs=1e-4)
        assert one["log_probability"] == pytest.approx(math.fsum(one["log_probabilities"]), abs=1e-9)
        assert one["mean"] == pytest.approx(one["log_probability"] / len(one["pieces"]))
        assert one["perplexity"] == pytest.approx(math.exp(-one["mean"]))
    total, pieces = math.fsum(numbers), sum(len(one["pieces"]) for one in entries)
    assert f"20 translations of {pieces} tokens, EOS included" in result.stderr
    assert f"perplexity {math.exp(-total / pieces):.2f}" in result.stderr
    # The same that evaluate measures.
    measured = json.loads(
        regard("evaluate", run, "--source", texts[0], "--target", texts[1], "--format", "json").stdout
    )
    assert measured["measures"]["perplexity"] == pytest.approx(math.exp(-total / pieces), rel=1e-5)


def test_score_shows_tokens_takes_texts_a_tsv_and_standard_input(regard, run, texts, tmp_path):
    [line] = regard("score", run, "at noon", "à midi", "--tokens").stdout.splitlines()
    whole, *parts = line.split("\t")
    assert [part.split(" ")[0] for part in parts] == ["à", "midi", "</s>"]
    assert float(whole) == pytest.approx(sum(float(part.split(" ")[1]) for part in parts), abs=1e-3)
    tsv = tmp_path / "pairs.tsv"
    tsv.write_text("à midi ||| at noon\n", encoding="utf-8")
    swapped = regard("score", run, "--tsv", tsv, "--columns", "2,1", "--separator", " ||| ").stdout
    assert float(swapped) == pytest.approx(float(whole), abs=1e-4)
    piped = regard("score", run, "-", "à midi", stdin="at noon\n").stdout
    assert float(piped) == pytest.approx(float(whole), abs=1e-4)
    out = tmp_path / "scores"
    assert regard("score", run, *texts, "--out", out, "--batch", "3").stdout == ""
    together = regard("score", run, *texts).stdout.splitlines()
    for one, other in zip(out.read_text().splitlines(), together, strict=True):
        assert float(one) == pytest.approx(float(other), abs=2e-4)


def test_score_and_align_keep_empty_lines_B29(regard, run, tmp_path):
    """Empty lines and a missing last break: line i is line i; an empty translation is scored as its end mark."""
    (tmp_path / "a").write_text("at noon\n\nin May"), (tmp_path / "b").write_text("à midi\n\n\n")
    scored = regard("score", run, tmp_path / "a", tmp_path / "b", "--format", "jsonl").stdout
    entries = [json.loads(line) for line in scored.splitlines()]
    assert [one["pieces"] for one in entries] == [["à", "midi", "</s>"], ["</s>"], ["</s>"]]
    result = regard("align", run, tmp_path / "a", tmp_path / "b", "--reverse", run)
    assert "--reverse takes a run of the other direction" in result.stderr
    links = result.stdout.split("\n")
    assert len(links) == 4 and links[0] and links[1:] == ["", "", ""]
    (tmp_path / "a").write_text(""), (tmp_path / "b").write_text("")
    for verb in ("score", "align"):
        assert regard(verb, run, tmp_path / "a", tmp_path / "b").stdout == ""
    nothing = [tmp_path / "a", tmp_path / "b", "--gold", tmp_path / "a"]
    assert "no pairs to measure" in regard("align", run, *nothing, code=1).stderr  # and no perfect alignment


def test_a_line_too_long_is_cut_with_a_warning_B32(regard, run):
    for verb in ("score", "align"):
        result = regard(verb, run, "noon " * 50, "midi", code=1)
        assert "line 1: 50 tokens and EOS are more than the model's 40" in result.stderr
        assert len(result.stdout.splitlines()) == 1


@pytest.mark.parametrize("verb", ["score", "align"])
def test_pairs_that_cannot_be_read_are_reported(regard, run, texts, tmp_path, verb):
    shorter = tmp_path / "shorter.fr"
    shorter.write_text("un\n" * 7)
    stderr = regard(verb, run, texts[0], shorter, "--out", tmp_path / "out", code=1).stderr
    assert "shorter.fr ends after 7 lines and" in stderr and "test.en continues" in stderr
    assert not (tmp_path / "out").exists()
    stderr = regard(verb, run, "-", texts[1], stdin="a\n", code=1).stderr
    assert "standard input ends after 1 lines and" in stderr and "no file" not in stderr
    assert "test.fr continues" in regard(verb, run, shorter, texts[1], code=1).stderr
    assert "name the pairs" in regard(verb, run, texts[0], code=2).stderr
    assert "name the pairs" in regard(verb, run, *texts, "--tsv", shorter, code=2).stderr
    assert "one stream" in regard(verb, run, "-", "-", code=2).stderr
    assert "--separator is empty" in regard(verb, run, "--tsv", shorter, "--separator", "", code=2).stderr
    for wrong in ("0,1", "2,2"):
        assert "source first" in regard(verb, run, "--tsv", shorter, "--columns", wrong, code=2).stderr
    assert "name it with --tsv" in regard(verb, run, *texts, "--columns", "2,1", code=2).stderr
    assert "'mistyped' is no file" in regard(verb, run, texts[0], "mistyped", code=1).stderr
    assert "shorter.fr, line 1: no tab" in regard(verb, run, "--tsv", shorter, code=1).stderr


def test_align_writes_pharaoh_and_jsonl(regard, run, texts):
    lines = regard("align", run, *texts, "--words", "tokenizer").stdout.splitlines()
    assert len(lines) == 20
    from_one = regard("align", run, *texts, "--words", "tokenizer", "--links-from", "1").stdout.splitlines()
    for line, other in zip(lines, from_one, strict=True):
        pairs = [tuple(map(int, link.split("-"))) for link in line.split()]
        assert other == " ".join(f"{source + 1}-{target + 1}" for source, target in pairs)
    entries = [json.loads(line) for line in
               regard("align", run, *texts, "--format", "jsonl", "--soft").stdout.splitlines()]  # fmt: skip
    for one, source, target in zip(entries, *(path.read_text("utf-8").splitlines() for path in texts), strict=True):
        assert one["source_words"] == source.split() and one["target_words"] == target.split()
        best = [max(range(len(row)), key=row.__getitem__) for row in one["weights"]]
        assert one["links"] == sorted([source, target] for target, source in enumerate(best))
        assert all(0 < sum(row) <= 1 + 1e-5 for row in one["weights"])
    thick = regard("align", run, *texts, "--threshold", "0.05", "--words", "tokenizer").stdout.splitlines()
    assert sum(len(line.split()) for line in thick) > sum(len(line.split()) for line in lines)


def test_align_joins_two_directions_and_measures_them(regard, run, files, texts, tmp_path):
    both = [*texts, "--reverse", run, "--words", "tokenizer"]
    union = regard("align", run, *both, "--symmetrize", "union").stdout.splitlines()
    default = regard("align", run, *both).stdout.splitlines()
    assert default == regard("align", run, *both, "--symmetrize", "grow-diag-final").stdout.splitlines()
    assert all(set(one.split()) <= set(other.split()) for one, other in zip(default, union, strict=True))
    gold = ["--gold", files / "test.links"]
    out = tmp_path / "links"
    scores = json.loads(regard("align", run, *both, *gold, "--format", "jsonl").stdout)
    printed = regard("align", run, *both, *gold, "--out", out).stdout
    assert out.read_text().splitlines() == default
    assert f"{scores['union']['error_rate']:.4f}" in printed and "grow-diag-final-and" in printed
    entry = json.loads(regard("evaluate", run, "--source", texts[0], "--target", texts[1], "--links", gold[1],
                              "--words", "tokenizer", "--format", "json").stdout)  # fmt: skip
    assert scores["forward"]["error_rate"] == pytest.approx(entry["measures"]["aer"])
    assert scores["diagonal"]["error_rate"] == pytest.approx(entry["baselines"]["diagonal"])
    alone = json.loads(regard("align", run, *both[:2], "--words", "tokenizer", *gold, "--format", "jsonl").stdout)
    assert set(alone) == {"forward", "diagonal", "uniform"} and alone["forward"] == scores["forward"]

    # Gold that names the target first, and counts from 1, is the same gold.
    turned = tmp_path / "turned"
    lines = (files / "test.links").read_text().splitlines()
    turned.write_text("".join(
        " ".join(f"{int(two) + 1}-{int(one) + 1}" for one, two in (link.split("-") for link in line.split())) + "\n"
        for line in lines))  # fmt: skip
    again = regard("align", run, *both, "--gold", turned, "--gold-reversed", "--links-from", "1", "--format", "jsonl")
    assert json.loads(again.stdout) == scores
    assert "links_words" in regard("align", run, *texts, *gold, code=1).stderr  # the phrases' links count marks
    assert "--reverse RUN" in regard("align", run, *texts, "--symmetrize", "union", code=2).stderr
    assert "--format jsonl" in regard("align", run, *texts, "--soft", code=2).stderr
    assert "--gold" in regard("align", run, *texts, "--gold-reversed", code=2).stderr


def test_evaluate_takes_a_tsv_or_jsonl(regard, run, texts, tmp_path):
    pairs = list(zip(*(path.read_text("utf-8").splitlines()[:3] for path in texts), strict=True))
    (tmp_path / "a.tsv").write_text("".join(f"{one}\t{two}\n" for one, two in pairs), encoding="utf-8")
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps({"source": one, "target": two}) + "\n" for one, two in pairs), encoding="utf-8")  # fmt: skip
    entries = [json.loads(regard("evaluate", run, f"--{kind}", tmp_path / f"a.{kind}", "--format", "json").stdout)
               for kind in ("tsv", "jsonl")]  # fmt: skip
    assert entries[0]["pairs"] == 3 and entries[0]["measures"] == entries[1]["measures"]
    (tmp_path / "b.tsv").write_text("".join(f"{two} ||| {one}\n" for one, two in pairs), encoding="utf-8")
    (tmp_path / "links").write_text("1-1\n" * 3)
    other = ["--columns", "2,1", "--separator", " ||| ", "--links", tmp_path / "links", "--links-from", "1"]
    entry = json.loads(regard("evaluate", run, "--tsv", tmp_path / "b.tsv", *other, "--links-reversed",
                              "--format", "json").stdout)  # fmt: skip
    assert entry["measures"].pop("aer") >= 0 and entry["measures"] == entries[0]["measures"]
    assert "choose one kind" in regard("evaluate", run, "--tsv", "a", "--jsonl", "b", code=2).stderr
    assert "name it with --tsv" in regard("evaluate", run, "--columns", "2,1", code=2).stderr
    assert "separator" in regard("evaluate", run, "--tsv", "a", "--separator", "", code=2).stderr
    assert "--tsv, too" in regard("evaluate", run, "--jsonl", "b", "--links", "c", code=2).stderr
