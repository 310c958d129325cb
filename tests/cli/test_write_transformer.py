"""A Transformer as a language model: it learns, is tested, writes and is looked at; documents, and past its window."""

import json
import math

import pytest
import torch

from regard.data.language.streams import read_streams
from regard.tasks.core.load import load
from regard.tasks.language.evaluation import evaluate_segments
from regard.vocabulary import BEGIN, END

TINY = [
    "model.kind=transformer", "model.dim=32", "model.heads=2", "model.dropout=0", "data.batch=8",
    "training.learning_rate=0.02", "training.warmup_steps=5", "--threads", 1, "--quiet",
]  # fmt: skip
POEMS = [("one", ["two three", "four"]), ("five", ["six", "seven eight nine"]), ("ten", ["eleven"])]
RHYME = ["one two three", "four five six", "seven eight"]


@pytest.fixture(scope="module")
def poems(tmp_path_factory):
    path = tmp_path_factory.mktemp("poems") / "poems.jsonl"
    lines = [json.dumps({"title": title, "lines": lines}) for title, lines in POEMS * 20]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def poet(regard, poems, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    regard("train", "language", f"data.text={poems}", "data.fields=[title,lines]", "data.documents=apart",
           f"data.tokens={folder / 'ids'}", "data.window=16", "model.layers=2", "model.position=rotary",
           "training.steps=80", "training.validate_every=80", "--run", folder / "poet", *TINY)  # fmt: skip
    return folder / "poet"


@pytest.fixture(scope="module")
def rhymer(regard, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rhyme")
    (folder / "rhyme.txt").write_text("\n".join(RHYME * 30) + "\n", encoding="utf-8")
    regard("train", "language", f"data.text={folder / 'rhyme.txt'}", "data.window=13", "model.position=learned",
           "model.context=13", "model.layers=2", "training.steps=50", "training.validate_every=50",
           "--run", folder / "run", *TINY)  # fmt: skip
    return folder / "run"


def test_a_document_is_written_to_its_end(regard, poet):
    for title, lines in POEMS:
        wanted = "\n".join([title, *lines])
        assert regard("write", poet, title, "--greedy").stdout.rstrip("\n") == wanted
    assert regard("write", poet, "five", "--greedy", "--one-line").stdout == "five\n"
    drawn = {regard("write", poet, "--seed", seed, "--temperature", 0.5).stdout.split("\n")[0] for seed in range(4)}
    assert drawn <= {title for title, _ in POEMS}  # an empty prompt is the beginning of a document


def test_a_running_text_is_as_long_as_was_asked_for(rhymer):
    """B26: padding is no piece and no end, not even at a temperature at which all pieces are as likely."""
    writer = load(rhymer)
    for text in writer.write("one", count=9, length=30, temperature=1e6, seed=1):
        ids, _ = writer._prompt(text)
        assert len(ids) == 31


def test_prompts_of_several_lengths_are_written_together(poet):
    """B17, B21: padding on the left and the other texts change nothing."""
    writer = load(poet)
    prompts = ["ten", "five\nsix\nseven", "one\ntwo"]
    together = writer.write_all(prompts, sample=False)
    assert together == [writer.write(prompt, sample=False) for prompt in prompts]
    assert together[1] == ["five\nsix\nseven eight nine\n"]


def test_each_document_is_predicted_from_its_beginning(regard, poet):
    """K5: by hand, document by document; the number of windows that are read together changes nothing."""
    writer = load(poet)
    data = writer.settings.data
    stream = read_streams(data, writer.tokenizer, print)[1]["test"]
    ids, nats = stream.ids.tolist(), 0.0
    while ids:
        end = ids.index(BEGIN) + 1
        one, ids = ids[:end], ids[end:]
        step = writer.model.step(writer.model.start(None, 1), torch.tensor([[BEGIN, *one[:-1]]]))
        nats -= step.logits[0].log_softmax(-1)[range(end), one].sum().item()
    evaluation = json.loads(regard("evaluate", poet, "--format", "json").stdout)
    assert evaluation["pieces"] == len(stream)
    assert evaluation["measures"]["loss"] == pytest.approx(nats / len(stream), abs=1e-5)
    assert evaluation["measures"]["perplexity"] == pytest.approx(math.exp(nats / len(stream)), rel=1e-4)
    assert "each document from its beginning" in evaluation["signatures"]["perplexity"]
    small = evaluate_segments(writer.model, stream, segment_length=16, window=3, apart=True)
    assert small.nats == pytest.approx(nats, abs=1e-3)


def test_packed_documents_do_not_see_each_other(poet):
    """The loss of a packed window is that of its documents, each read by itself."""
    model = load(poet).model
    first, second = [5, 6, END, BEGIN], [7, 8, 9, END]
    ids = torch.tensor([[BEGIN, *first, *second]])
    packed = model(ids, 0.0, (ids == BEGIN).long().cumsum(1))
    alone = [model(torch.tensor([[BEGIN, *one]])) for one in (first, second)]
    assert packed.total.item() == pytest.approx(sum(one.total.item() for one in alone), abs=1e-4)
    assert packed.count == 8
    assert model(ids).total.item() != pytest.approx(packed.total.item(), abs=1e-2)


def test_it_writes_past_what_it_sees(regard, rhymer):
    """Learned positions end at 13; a text of 50 pieces is read anew by halves, each by its own length."""
    written = regard("write", rhymer, "one two three", "--greedy", "--length", 42).stdout
    guessed = regard("write", rhymer, "one two three", "--greedy", "--length", 42, "--ahead", 3).stdout
    assert guessed == written
    assert "--greedy" in regard("write", rhymer, "one", "--ahead", 3, code=2).stderr
    assert written.startswith("\n".join(RHYME * 4))
    writer = load(rhymer)
    long = "\n".join(RHYME * 2) + "\none"
    both = writer.write_all(["one", long], sample=False, length=20)
    assert both == [writer.write(start, sample=False, length=20) for start in ("one", long)]
    message = regard("write", rhymer, "one", "--length", 30, "--reach", 14, code=2).stderr
    assert message == (
        "error: reach is 14 tokens, and this model has 13 learned positions (model.context); give 13 or less\n"
    )
    regard("write", rhymer, "one", "--length", 30, "--reach", 13)


def test_a_test_reads_as_far_as_training_did_unless_told(regard, rhymer):
    evaluation = json.loads(regard("evaluate", rhymer, "--format", "json").stdout)
    assert (
        "evaluation segments of 13 tokens" in evaluation["signatures"]["perplexity"]
        and evaluation["measures"]["perplexity"] < 3
    )
    assert [row["place"] for row in evaluation["lengths"]] == ["1–8", "9–64"]
    less = json.loads(regard("evaluate", rhymer, "stretch=2", "part=validation", "--format", "json").stdout)
    assert less["measures"]["perplexity"] > evaluation["measures"]["perplexity"]
    assert "holds positions 0 to 12" in regard("evaluate", rhymer, "stretch=20").stderr


def test_what_each_layer_and_head_looked_at(regard, rhymer, tmp_path):
    path = tmp_path / "look.json"
    regard("show", rhymer, "one zork three", "--out", path)
    shown = json.loads(path.read_text(encoding="utf-8"))
    assert [matrix["rows"] for matrix in shown["matrices"]] == [["↵", "one", "zork", "three"]] * 2
    heads = load(rhymer).view("one zork three", heads=True)
    assert len(heads.matrices) == 2 * 2
    mean = torch.stack([torch.tensor(matrix.values) for matrix in heads.matrices[:2]]).mean(0)
    torch.testing.assert_close(torch.tensor(shown["matrices"][0]["values"]), mean.float(), atol=1e-6, rtol=0)
    assert not mean.triu(1).any()
    torch.testing.assert_close(mean.sum(-1), torch.ones(4, dtype=mean.dtype))


def test_a_writing_is_recorded_step_by_step(rhymer):
    writer = load(rhymer)
    view = writer.steps("four", sample=False, length=3)
    likely = view.matrices[-1]
    assert list(likely.rows) == ["five", "six", "↵"]
    ids = writer.tokenizer.encode("four five").ids
    step = writer.model.step(writer.model.start(None, 1), torch.tensor([[END, *ids]]))
    wanted = step.logits[0, -1].softmax(-1).max().item()
    assert likely.values[1][0] == pytest.approx(wanted, abs=1e-6) == pytest.approx(likely.values[1][1], abs=1e-6)
    torch.testing.assert_close(
        torch.tensor(view.matrices[0].values[1][:3]).float(), step.attended["self 0"].weights[0, :, -1].mean(0)
    )


def test_settings_that_cannot_be_are_reported_before_the_text_is_read(regard, poems, tmp_path):
    message = regard("train", "language", f"data.text={poems}", "data.documents=apart", "model.kind=lstm", "--run",
                  tmp_path / "run", code=2).stderr  # fmt: skip
    assert "documents=apart" in message and "needs model.kind=transformer" in message
    message = regard("train", "language", f"data.text={poems}", "data.window=20", "model.kind=transformer",
                  "model.position=learned", "model.context=19", "--run", tmp_path / "run", code=2).stderr  # fmt: skip
    assert "learned positions end at model.context, 19" in message
