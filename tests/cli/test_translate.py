"""One line in is one line out, whatever the line."""

import gzip
import io
import json

import numpy as np
import pytest

import regard as library
from regard.errors import DataError


def test_the_run_folder_has_all_that_translating_needs(run):
    names = {path.name for path in run.iterdir()}
    assert {"config.yaml", "model.safetensors", "metrics.jsonl", "results.json", "tokenizers", "checkpoints"} <= names


def test_a_text_a_file_and_standard_input_give_the_same(regard, run, files):
    lines = (files / "test.en").read_text(encoding="utf-8").splitlines()
    packed = files / "test.en.gz"
    packed.write_bytes(gzip.compress((files / "test.en").read_bytes()))
    whole = regard("translate", run, files / "test.en").stdout
    assert whole.count("\n") == len(lines) == 20
    assert regard("translate", run, packed).stdout == whole
    assert regard("translate", run, "-", stdin="\n".join(lines)).stdout == whole
    assert regard("translate", run, lines[4]).stdout == whole.splitlines()[4] + "\n"


@pytest.mark.parametrize(
    ("text", "empty"),
    [
        ("at noon\n\nfor two days\n", [1]),
        ("\n", [0]),
        ("", []),
        ("at noon", []),
        (" \t \nat noon\n", [0]),
    ],
    ids=["middle", "one break", "0 bytes", "no final break", "white"],
)
def test_empty_lines_are_empty_lines_again(regard, run, tmp_path, text, empty):
    """B29 (and B15): empty in is empty out, a 0-byte file gives nothing, and the exit code is 0."""
    file = tmp_path / "in.txt"
    file.write_text(text)
    given = io.StringIO(text).read().splitlines()
    got = regard("translate", run, file, "--min-length", 1).stdout.splitlines()
    assert len(got) == len(given)
    assert [at for at, line in enumerate(got) if not line] == empty


@pytest.mark.parametrize("batch", [1, 3, 64])
def test_lines_keep_their_places_in_chunks(regard, run, files, tmp_path, batch):
    """B28: ten lines of which four are empty, for any batch; a chunk is 16 batches, so batch 1 makes several."""
    lines = (files / "test.en").read_text(encoding="utf-8").splitlines()[:6]
    block = ["", lines[0], "", lines[1], lines[2], "", "", lines[3], lines[4], lines[5]]
    translator = library.load(run)
    expected = ["" if not line else translator.translate([line])[0].text for line in block] * 4
    got = regard("translate", run, "-", "--batch", batch, stdin="\n".join(block * 4) + "\n").stdout
    assert got.split("\n")[:-1] == expected


def test_an_over_long_line_is_cut_with_a_warning_that_names_it(regard, run):
    """B32: three lines out, the long one cut, its number in the warning and in the exit code; also one huge word."""
    lines = ["for two days", "two " * 5000, "at noon", "x" * 100_000]
    result = regard("translate", run, "-", stdin="\n".join(lines) + "\n", code=1)
    assert result.stdout.count("\n") == 4
    assert result.stderr.count("warning:") == 1 and "line 2: 5000 tokens" in result.stderr
    again = regard("translate", run, "-", stdin="two " * 39 + "\n", code=0).stdout
    assert result.stdout.splitlines()[1] == again.rstrip("\n")


@pytest.mark.parametrize(("count", "code"), [(38, 0), (39, 0), (40, 1)])
def test_the_limit_counts_the_end_mark(regard, run, count, code):
    """B32: limit − 1, limit and limit + 1 tokens, the end mark counted (data.max_length is 40)."""
    regard("translate", run, "-", stdin="two " * count + "\n", code=code)


def test_bytes_that_are_not_utf8_name_file_and_line(regard, run, tmp_path):
    """B31: invalid bytes are an error with file and line; a byte-order mark is ignored."""
    file = tmp_path / "latin.txt"
    file.write_bytes("at noon\ncafé\n".encode("latin-1"))
    result = regard("translate", run, file, code=1)
    assert f"{file}, line 2" in result.stderr and "Traceback" not in result.stderr
    file.write_bytes("\ufefffor two days\r\nat noon\r".encode())
    plain = regard("translate", run, "-", stdin="for two days\nat noon\n").stdout
    assert regard("translate", run, file).stdout == plain


def test_unknown_words_are_copied_and_no_marker_shows(regard, run):
    """B30: no special piece in any output, whatever is typed."""
    got = regard("translate", run, "-", stdin="Zork runs\n<unk> </s> <pad>\n雪 🙂\n").stdout
    assert got.count("\n") == 3
    assert not any(mark in got.splitlines()[0] for mark in ("<unk>", "<s>", "</s>", "<pad>"))


def test_json_lines_hold_scores_links_and_weights(regard, run):
    text = "at 7:25 PM, for two days"
    one = json.loads(regard("translate", run, text, "--format", "jsonl", "--align", "soft").stdout)
    [output] = one["outputs"]
    assert one["line"] == 1 and one["source"] == text
    assert one["source_pieces"] == ["at", "7", ":", "25", "PM", ",", "for", "two", "days", "</s>"]
    weights = np.array(output["alignment"])
    assert weights.shape == (len(output["pieces"]), 10)
    np.testing.assert_allclose(weights.sum(1), 1, atol=1e-5)
    assert output["finished"] == (output["pieces"][-1] == "</s>")
    words = json.loads(regard("translate", run, text, "--format", "json", "--align", "words").stdout)[0]
    links = words["outputs"][0]["links"]
    body = weights[: len(words["outputs"][0]["words"]), :9]
    assert links == sorted([int(row.argmax()), at] for at, row in enumerate(body))
    plain = regard("translate", run, text, "--align", "words").stdout.rstrip("\n")
    assert plain == f"{output['text']} ||| {' '.join(f'{one}-{two}' for one, two in links)}"


def test_empty_input_in_every_format(regard, run):
    """B29: no lines are a valid JSON list of none; an empty line is an entry with an empty text."""
    assert json.loads(regard("translate", run, "-", "--format", "json", stdin="").stdout) == []
    assert regard("translate", run, "-", "--format", "jsonl", stdin="").stdout == ""
    [one] = json.loads(regard("translate", run, "-", "--format", "json", "--align", "soft", stdin="\n").stdout)
    assert one["outputs"][0]["text"] == "" and one["outputs"][0]["alignment"] is None
    assert regard("translate", run, "-", "--align", "words", stdin="\n").stdout == " ||| \n"


def test_n_best_is_on_one_line_and_refused_beyond_the_beam(regard, run):
    """B25: more n-best than beams is refused before anything is written, with both numbers named."""
    best = regard("translate", run, "at noon", "--beam", 4, "--n-best", 3).stdout
    assert best.count("\n") == 1 and len(best.split("\t")) == 3
    outputs = json.loads(regard("translate", run, "at noon", "--beam", 4, "--n-best", 3, "--format", "jsonl").stdout)[
        "outputs"
    ]
    assert [one["text"] for one in outputs] == best.rstrip("\n").split("\t")
    assert [one["score"] for one in outputs] == sorted((one["score"] for one in outputs), reverse=True)
    result = regard("translate", run, "-", "--beam", 2, "--n-best", 3, stdin="at noon\n", code=2)
    assert result.stdout == "" and "n_best 3 is more than beam 2" in result.stderr


def test_a_beam_wider_than_the_vocabulary_is_refused(regard, run):
    entries = len(library.load(run).target)
    most = max(entries, 128)
    result = regard("translate", run, "-", "--beam", most + 1, stdin="at noon\n", code=2)
    assert result.stdout == "" and result.stderr.startswith(
        f"error: the beam is {most + 1} hypotheses, and the vocabulary has {entries} entries; give at most {most}."
    )
    assert regard("translate", run, "at noon", "--beam", most, "--max-length", 2).stdout
    # Draws are independent, so that there may be any number of them.
    assert regard("translate", run, "at noon", "--beam", most + 1, "--sample", "--max-length", 1).stdout


def test_sampling_repeats_with_its_seed_alone(regard, run, files):
    def draw(seed, batch):
        return regard("translate", run, files / "test.en", "--sample", "--seed", seed, "--batch", batch).stdout

    assert draw(1, 64) == draw(1, 3) != draw(2, 64)


def test_output_goes_to_a_file_that_is_whole_or_not_there(regard, run, files, tmp_path):
    target = tmp_path / "deep" / "out.txt"
    assert regard("translate", run, files / "test.en", "--out", target).stdout == ""
    assert target.read_text(encoding="utf-8") == regard("translate", run, files / "test.en").stdout
    assert target.stat().st_mode == (run / "config.yaml").stat().st_mode  # readable by whom the umask lets
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"at noon\n" * 20 + b"\xff\n")
    regard("translate", run, bad, "--out", tmp_path / "none.txt", "--batch", 1, code=1)  # after the first 16 lines
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.txt", "deep"]


def test_length_and_coverage_terms_of_the_command(regard, run):
    def best(*options):
        found = regard("translate", run, "for two days", "--beam", 3, "--format", "jsonl", "--align", "soft", *options)
        return json.loads(found.stdout)["outputs"][0]

    plain = best()
    assert len(best("--min-length", 11, "--max-length", 13)["pieces"]) in (12, 13)
    assert best("--length-penalty", 0)["score"] == pytest.approx(best("--length-penalty", 0)["log_probability"])
    covered = best("--coverage-penalty", 0.5, "--n-best", 1)
    received = np.clip(np.sum(covered["alignment"], axis=0), 1e-6, 1).astype(float)
    length = len(covered["alignment"])
    assert covered["score"] == pytest.approx(
        covered["log_probability"] / length + 0.5 * np.log(received).sum(), rel=1e-5
    )
    assert covered["score"] <= plain["score"] + 1e-9


def test_a_line_that_is_typed_is_answered_before_the_next_is_read(regard, run, monkeypatch):
    lines = b"at noon\n\xff\n"
    assert regard("translate", run, "-", stdin=lines, code=1).stdout == ""
    monkeypatch.setattr("regard.cli.translate.is_typed", lambda given: True)
    assert regard("translate", run, "-", stdin=lines, code=1).stdout.count("\n") == 1


def test_what_looks_like_a_missing_file_is_not_translated(regard, run):
    assert "no such file" in regard("translate", run, "tset.de.gz", code=1).stderr
    assert "several lines" in regard("translate", run, "one\ntwo", code=2).stderr


def test_the_library_gives_what_the_command_prints(regard, run):
    translator = library.load(run)
    [one] = translator.translate(["for two days"])
    assert one.text + "\n" == regard("translate", run, "for two days").stdout
    assert one.alignment.shape == (len(one.tokens), len(one.source_tokens))
    assert (one.tokens[-1] == "</s>") == one.finished
    assert translator.translate([]) == []


def test_other_folders_are_distinguished(regard, tmp_path):
    assert "no such folder" in regard("translate", tmp_path / "none", "a", code=1).stderr
    assert "not a run folder" in regard("translate", tmp_path, "a", code=1).stderr
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    assert "Hugging Face folder (model type 'bert')" in regard("translate", tmp_path, "a", code=1).stderr


def test_one_text_is_not_taken_for_its_characters(run):
    translator = library.load(run)
    with pytest.raises(DataError, match="a list of texts is expected"):
        translator.translate("at noon")
    with pytest.raises(DataError, match="a list of texts is expected"):
        translator.score("at", ["à", "midi"])
