"""`regard train language`, `write`, `evaluate` and `show`, on a run that knows a short rhyme by heart."""

import json
import math

import pytest
import torch

from regard.data.language.stream import TokenStream
from regard.errors import DataError
from regard.tasks.core.load import load
from regard.tasks.language.evaluation import evaluate_segments, segment_length_of

RHYME = ["one two three", "four five six", "", "seven eight nine"]
TINY = [
    "model.width=19", "model.attention=7", "model.embedding_dim=17", "model.input_dropout=0", "model.output_dropout=0",
    "data.window=12", "data.batch=8", "training.steps=90", "training.learning_rate=0.03", "training.warmup_steps=2",
    "training.validate_every=45",
]  # fmt: skip


@pytest.fixture(scope="module")
def rhyme(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "rhyme.txt"
    path.write_text("\n".join(RHYME * 30) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def trained(regard, rhyme, tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "rhyme"
    regard("train", "language", f"data.text={rhyme}", "model.kind=lstmn", "model.tape=12", "--run", run, "--threads", 1,
           "--quiet", *TINY)  # fmt: skip
    return run


def test_it_knows_the_rhyme_and_continues_with_it(regard, trained):
    output = regard("write", trained, "one two", "--greedy", "--length", 10).stdout
    assert output == "one two three\nfour five six\n\nseven eight nine\n"
    assert regard("write", trained, "four", "--greedy", "--one-line").stdout == "four five six\n"
    assert regard("write", trained, "one two three\nfour", "--greedy", "--length", 2).stdout.endswith("four five six\n")
    assert regard("write", trained, "one", "--length", 0).stdout == "one\n"


def test_draws_are_seeded(regard, trained):
    """K9: a seed is a text."""
    drawn = ["write", trained, "one", "--length", 12, "--temperature", 3, "--count", 2, "--seed"]
    first = regard(*drawn, 1).stdout
    assert regard(*drawn, 1).stdout == first
    assert regard(*drawn, 2).stdout != first
    assert first.startswith("one") and "\n\none" in first
    assert "<" not in first  # no mark of the vocabulary is ever written


def test_an_unknown_prompt_keeps_its_spelling(regard, trained):
    """B30: what the model does not know is written as it was typed."""
    assert regard("write", trained, "Zork two", "--greedy", "--length", 1).stdout.startswith("Zork two")
    assert "top_k" in regard("write", trained, "--top-k", 0, code=2).stderr


def test_perplexity_counts_every_piece_once(regard, trained, rhyme, tmp_path):
    evaluation = json.loads(regard("evaluate", trained, "--format", "json").stdout)
    assert evaluation["measures"]["perplexity"] < 2 and evaluation["measures"]["accuracy"] > 0.85
    assert sum(row["pieces"] for row in evaluation["lengths"]) == evaluation["pieces"] == 3 * 13
    other = tmp_path / "other.txt"
    other.write_text("one two zork\n", encoding="utf-8")
    found = json.loads(regard("evaluate", trained, f"text={other}", "--format", "json").stdout)
    assert found["pieces"] == 4 and "1 of them unknown (25.0%)" in found["signatures"]["perplexity"]
    # By hand: each piece from all those before it, the first from a line end.
    writer = load(trained)
    ids = TokenStream.of(["one two zork"], writer.tokenizer).ids.tolist()
    logits, _ = writer.model.read(torch.tensor([[3, *ids[:-1]]]), writer.model.reader.start(1))
    nats = -logits.log_softmax(-1)[0, range(4), ids].sum().item()
    assert found["measures"]["perplexity"] == pytest.approx(math.exp(nats / 4), rel=1e-5)


def test_the_state_is_carried_over_windows(trained):
    """K5: cut into windows of any size, a text is told with the same probability."""
    writer = load(trained)
    stream = TokenStream.of(RHYME * 5, writer.tokenizer)
    segment_length = segment_length_of(writer.settings)
    assert segment_length == 1024
    whole = evaluate_segments(writer.model, stream, segment_length=segment_length, window=1000)
    for window in (1, 7):
        sums = evaluate_segments(writer.model, stream, segment_length=segment_length, window=window)
        assert sums.nats == pytest.approx(whole.nats, abs=1e-3)


def test_what_each_word_looked_back_at(regard, trained, tmp_path):
    path = tmp_path / "look.json"
    regard("show", trained, "one zork three", "--out", path)
    [matrix] = json.loads(path.read_text(encoding="utf-8"))["matrices"]
    assert matrix["rows"] == ["↵", "one", "zork", "three"]
    values = torch.tensor(matrix["values"])
    assert not values.triu().any()
    torch.testing.assert_close(values[1:].sum(-1), torch.ones(3))


def test_a_plain_lstm_learns_it_too_and_shows_nothing(regard, rhyme, tmp_path):
    run = tmp_path / "plain"
    small = [one for one in TINY if "attention" not in one]
    regard(
        "train", "language", f"data.text={rhyme}", "model.kind=lstm", "--run", run, "--threads", 1, "--quiet", *small
    )
    assert regard("write", run, "one", "--greedy", "--length", 2).stdout == "one two three\n"
    assert "model.kind is lstm" in regard("show", run, "one two", code=1).stderr


def test_characters_are_tokens_too(regard, rhyme, tmp_path):
    run = tmp_path / "characters"
    regard("train", "language", f"data.text={rhyme}", "model.kind=lstmn", "data.tokenizer=characters", "--run", run,
           "--threads", 1, "--quiet", *TINY, "training.steps=10", "training.validate_every=10")  # fmt: skip
    assert len(regard("write", run, "one", "--length", 5, "--one-line").stdout) <= 9


def test_a_text_that_cannot_be_used_is_reported(regard, tmp_path):
    assert "no text to train on" in regard("train", "language", "--run", tmp_path / "run", code=2).stderr
    path = tmp_path / "short.txt"
    path.write_text("one\n")
    message = regard("train", "language", f"data.text={path}", "--run", tmp_path / "run", code=1).stderr
    assert "give more text" in message


def test_one_text_is_not_taken_for_its_characters(trained):
    with pytest.raises(DataError, match="a list of texts is expected"):
        load(trained).write_all("one")
