"""`regard train classification`, `classify`, `evaluate` and `show`, on a run that has learned a small language."""

import json

import pytest
import torch

from regard.data.chance import Chance
from regard.errors import DataError
from regard.tasks.core.load import load

WORDS = ["a", "b", "c", "d", "e", "f", "g"]
TINY = [
    "model.kind=lstmn", "model.width=11", "model.attention=7", "model.embedding_dim=13", "model.pooling=[mean,query]",
    "model.input_dropout=0", "model.output_dropout=0", "data.tokens=150", "data.max_length=12", "training.steps=30",
    "training.learning_rate=0.03", "training.warmup_steps=2", "training.validate_every=15",
    "training.monitor=accuracy", "training.better=max",
]  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Sentences of which one word says what they are."""
    folder, chance = tmp_path_factory.mktemp("sentences"), Chance("sentences")
    for label, word in (("good", "fine"), ("bad", "dull")):
        lines = []
        for _ in range(90):
            words = [chance.choose(WORDS) for _ in range(1 + chance.below(7))]
            words.insert(chance.below(len(words) + 1), word)
            lines.append(" ".join(words) + "\n")
        (folder / f"{label}.txt").write_text("".join(lines), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def trained(regard, files, tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "tiny"
    regard("train", "classification", *(f"data.files.{label}={files / label}.txt" for label in ("good", "bad")),
           "--run", run, "--threads", 1, "--quiet", *TINY)  # fmt: skip
    return run


def test_it_has_learned_and_says_so(regard, trained, files):
    evaluation = json.loads(regard("evaluate", trained, "--format", "json").stdout)
    assert evaluation["measures"]["accuracy"] > 0.95
    assert sum(row["sentences"] for row in evaluation["lengths"]) == evaluation["sentences"] < 60
    assert 0.5 <= evaluation["baselines"]["the most frequent label"] < 0.8
    parts = [f"files.{label}={files / label}.txt" for label in ("good", "bad")]
    part = json.loads(regard("evaluate", trained, *parts, "part=test", "--format", "json").stdout)
    assert part["sentences"] == evaluation["sentences"] and part["measures"] == pytest.approx(evaluation["measures"])
    assert json.loads(regard("evaluate", trained, *parts, "--format", "json").stdout)["sentences"] == 180
    assert "the most frequent label" in regard("evaluate", trained).stdout


def test_one_line_in_is_one_line_out_whatever_the_line(regard, trained, tmp_path):
    """K8: B28, B29, B31, B32; a mark at the start, blank lines, unknown words, a line too long, no last break."""
    lines = ["a fine b", "", "dull", " \t ", "Zork 中 😀 fine", "c " * 20 + "dull", "fine"]
    path = tmp_path / "lines.txt"
    path.write_text("\ufeff" + "\n".join(lines), encoding="utf-8")
    result = regard("classify", trained, path, "--batch", 2, code=1)
    out = result.stdout.split("\n")
    labels = [line.split("\t")[0] for line in out]
    assert labels == ["good", "", "bad", "", labels[4], labels[5], "good", ""]
    assert "warning: line 6: 21 tokens are more than the model's 12" in result.stderr
    assert {labels[4], labels[5]} <= {"good", "bad"}  # of words that no training sentence had
    assert all(0.5 < float(line.split("\t")[1]) <= 1 for line in out if line)
    assert regard("classify", trained, "-", "--batch", 1, stdin=path.read_bytes(), code=1).stdout == result.stdout
    objects = [
        json.loads(line) for line in regard("classify", trained, path, "--format", "jsonl", code=1).stdout.splitlines()
    ]
    assert [one["text"] for one in objects] == lines and [one["line"] for one in objects] == list(range(1, 8))
    assert objects[1]["label"] is None and "note" in objects[5]
    assert sum(objects[0]["probabilities"].values()) == pytest.approx(1)


@pytest.mark.parametrize(("given", "lines"), [(b"", 0), (b"\n", 1), (b"fine\n\ndull", 3), (b"fine\r\ndull\r", 2)])
def test_empty_and_broken_files(regard, trained, given, lines):
    """B29: an empty file, a blank line alone, no break at the end."""
    assert regard("classify", trained, "-", stdin=given).stdout.count("\n") == lines


def test_bytes_that_are_no_text_are_reported_with_their_line(regard, trained):
    assert "line 2" in regard("classify", trained, "-", stdin=b"fine\n\xff\n", code=1).stderr


def test_one_text_is_not_taken_for_its_characters(trained):
    with pytest.raises(DataError, match=r"a list of texts is expected; for one text write \['fine'\]"):
        load(trained).classify("fine")


def test_batch_size_and_order_change_no_label(trained):
    """K6 (B21): the same line has the same verdict beside whatever others."""
    classifier = load(trained)
    texts = ["fine a", "b dull b c d", "", "a b c d e f g fine", "zork"]
    alone = [classifier.classify([text])[0] for text in texts]
    for batch in (1, 2, 5):
        for one, other in zip(classifier.classify(texts, batch), alone, strict=True):
            assert one.label == other.label
            assert one.probability == pytest.approx(other.probability, abs=1e-6)


def test_a_test_on_other_labels_is_refused_with_its_line(regard, trained, tmp_path):
    path = tmp_path / "other.tsv"
    path.write_text("fine\tgood\ndull\tbaad\n")
    assert "line 2: the label 'baad'" in regard("evaluate", trained, f"tsv={path}", code=1).stderr


def test_what_each_word_looked_back_at(regard, trained, tmp_path):
    path = tmp_path / "look.json"
    regard("show", trained, "a b fine zork", "--out", path)
    view = json.loads(path.read_text(encoding="utf-8"))
    own, pooled = view["matrices"]
    assert view["kind"] == "attention" and own["rows"] == own["columns"] == ["a", "b", "fine", "zork"]
    values = torch.tensor(own["values"])
    assert not values.triu().any()
    torch.testing.assert_close(values.sum(-1), torch.tensor([0.0, 1, 1, 1]))
    assert len(pooled["rows"]) == 1 and sum(pooled["values"][0]) == pytest.approx(1)
    assert any(note.startswith("good ") for note in view["notes"]) and any("zork" in note for note in view["notes"])
    assert "the text is empty" in regard("show", trained, " ", code=1).stderr


def test_a_transformer_shows_its_heads_and_what_its_queries_read(regard, files, trained, tmp_path):
    run, path = tmp_path / "two-sided", tmp_path / "look.json"
    own = ["model.kind=transformer", "model.dim=10", "model.heads=2", "model.layers=1", "model.embedding_dim=7",
           "model.pooling=[query]", "model.queries=2", "training.steps=3"]  # fmt: skip
    shared = [one for one in TINY if not one.startswith(("model.", "training.steps"))]
    regard("train", "classification", *(f"data.files.{label}={files / label}.txt" for label in ("good", "bad")),
           "--run", run, "--threads", 1, "--quiet", *own, *shared)  # fmt: skip
    shown = regard("show", run, "a b fine zork").stdout
    assert "what the pooling read" in shown and "1.2" in shown  # an overview: the second head of the first layer
    regard("show", run, "a b fine zork", "--heads", "--out", path)
    view = json.loads(path.read_text(encoding="utf-8"))
    assert view["kind"] == "heads" and [len(matrix["rows"]) for matrix in view["matrices"]] == [4, 4]
    assert "no layers of heads" in regard("show", trained, "a", "--heads", code=1).stderr


def test_a_stopped_training_continues_bit_for_bit(regard, files, tmp_path):
    """B33: stopped in the middle of an epoch and resumed, the weights are those of the unbroken run."""
    given = [f"data.files.{label}={files / label}.txt" for label in ("good", "bad")]
    given += [one for one in TINY if not one.startswith("training.steps")] + ["training.decay=none"]
    for name, steps in (("whole", 9), ("broken", 5)):
        regard("train", "classification", *given, f"training.steps={steps}", "--run", tmp_path / name, "--threads", 1,
               "--quiet")  # fmt: skip
    regard("train", "--resume", tmp_path / "broken", "training.steps=9", "--quiet")
    weights = [(tmp_path / name / "checkpoints").glob("*9/model.safetensors") for name in ("whole", "broken")]
    whole, broken = (next(iter(found)).read_bytes() for found in weights)
    assert whole == broken


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["data.tsv=none.tsv"], "no such file"),
        ([], "no sentences to train on"),
        (["data.tsv=a.tsv", "model.kind=lstmm"], "lstmm"),
        (["data.tsv=a.tsv", "model.pooling=[men]"], "pooling"),
        (["data.tsv=a.tsv", "training.monitor=bleu"], "bleu"),
    ],
)
def test_what_is_wrong_is_reported(regard, tmp_path, given, message):
    code = 1 if "none" in str(given) else 2
    assert message in regard("train", "classification", *given, "--run", tmp_path / "run", code=code).stderr


def test_a_run_of_another_task_is_refused(regard, trained):
    assert "needs one of language" in regard("write", trained, "a", code=2).stderr
    assert "needs one of translation" in regard("translate", trained, "a", code=2).stderr


def test_counts_are_news_and_an_empty_file_of_a_label_is_a_warning(regard, files, tmp_path):
    """News are silent under --quiet, and never look like a warning."""
    (tmp_path / "none.txt").write_text("\n \n")
    given = [f"data.files.{label}={files / label}.txt" for label in ("good", "bad")]
    given += [f"data.files.mixed={tmp_path / 'none.txt'}", "--threads", 1, *TINY, "training.steps=1"]
    message = regard("train", "classification", *given, "--run", tmp_path / "loud").stderr
    assert "sentences; in training: bad " in message
    assert "warning: " not in message.replace("warning: " + str(tmp_path), "")
    warned = f"warning: {tmp_path / 'none.txt'} has no sentence of the label 'mixed': it is empty, or of blank lines "
    assert warned + "alone; that label is not learned\n" in message
    quiet = regard("train", "classification", *given, "--run", tmp_path / "quiet", "--quiet").stderr
    assert quiet == warned + "alone; that label is not learned\n"
    assert json.loads((tmp_path / "quiet" / "tokenizers" / "labels.json").read_text()) == ["bad", "good"]
