"""`regard train tagging`, `tag`, `evaluate` and `show`, on a run that has learned a small language."""

import json

import pytest
import torch

from regard.data.chance import Chance
from regard.errors import DataError
from regard.tasks.core.load import load

TINY = [
    "model.dim=12", "model.heads=2", "model.layers=1", "model.position=rotary", "model.dropout=0",
    "model.word_dropout=0.1", "model.input_dropout=0", "model.output_dropout=0", "data.tokens=120",
    "data.max_length=13", "data.validation_share=0.2", "data.test_share=0.2", "training.steps=50",
    "training.learning_rate=0.03", "training.warmup_steps=2", "training.validate_every=25",
]  # fmt: skip


def sentence(words):
    """`run` is a verb after `they` and a noun after `the`; a word in -ly is always an adverb."""
    tags, before = {"they": "PRON", "the": "DET", "a": "DET", ".": "PUNCT"}, ""
    lines = []
    for number, word in enumerate(words, start=1):
        tag = "ADV" if word.endswith("ly") else tags.get(word, "VERB" if before == "they" else "NOUN")
        lines.append(f"{number}\t{word}\t_\t{tag}\t_\t_\t0\t_\t_\t_\n")
        before = word
    return "".join(lines) + "\n"


@pytest.fixture(scope="module")
def treebank(tmp_path_factory):
    path, chance = tmp_path_factory.mktemp("treebank") / "small.conllu", Chance("treebank")
    made = []
    for _ in range(150):
        words = []
        for _ in range(1 + chance.below(3)):
            words += [chance.choose(["they", "the", "a"]), chance.choose(["run", "walk", "dance"])]
            words += ["".join(chance.choose("bdkmst") for _ in range(3)) + "ly"] if chance() < 0.4 else []
        made.append(sentence([*words, "."]))
    path.write_text("".join(made), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def trained(regard, treebank, tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "tiny"
    regard("train", "tagging", f"data.treebank={treebank}", "--run", run, "--threads", 1, "--quiet", *TINY)
    return run


def test_it_has_learned_what_counting_words_cannot(regard, trained, treebank):
    evaluation = json.loads(regard("evaluate", trained, "--format", "json").stdout)
    assert evaluation["measures"]["accuracy"] > 0.97 > evaluation["baselines"]["the most frequent tag of each word"]
    known, unknown = evaluation["lengths"]
    assert known["words"] + unknown["words"] == evaluation["words"] and unknown["words"] > 5
    assert unknown["accuracy"] > 0.9  # known by their endings alone
    assert json.loads(regard("evaluate", trained, f"treebank={treebank}", "--format", "json").stdout)["words"] > 500


def test_one_line_in_is_one_line_out_whatever_the_line(regard, trained, tmp_path):
    """K8: B28, B29, B31; a mark at the start, blank lines, unknown words, a line too long, no last break."""
    lines = ["they run.", "", "the run .", " \t ", "中 😀 zorkly", "a " * 20 + "run", "they-run"]
    path = tmp_path / "lines.txt"
    path.write_text("\ufeff" + "\n".join(lines), encoding="utf-8")
    result = regard("tag", trained, path, "--batch", 2, code=1)
    out = result.stdout.split("\n")
    assert out[:4] == ["they/PRON run/VERB ./PUNCT", "", "the/DET run/NOUN ./PUNCT", ""] and len(out) == 8
    assert out[4].endswith("zorkly/ADV") and [word.rsplit("/", 1)[0] for word in out[4].split()] == [
        "中",
        "😀",
        "zorkly",
    ]
    assert out[5].count(" ") == 12 and "warning: line 6: 21 words are more than the model's 13" in result.stderr
    assert len(out[6].split()) == 3
    assert regard("tag", trained, "-", "--batch", 1, stdin=path.read_bytes(), code=1).stdout == result.stdout
    spaced = regard("tag", trained, path, "--words", "whitespace", code=1).stdout.split("\n")
    assert spaced[0].startswith("they/PRON run./") and spaced[6].startswith("they-run/")
    objects = [
        json.loads(line) for line in regard("tag", trained, path, "--format", "jsonl", code=1).stdout.splitlines()
    ]
    assert [one["text"] for one in objects] == lines and objects[0]["words"] == ["they", "run", "."]
    assert objects[1]["tags"] == [] and "note" in objects[5]
    assert sum(objects[0]["probabilities"][1].values()) == pytest.approx(1)


@pytest.mark.parametrize(("given", "lines"), [(b"", 0), (b"\n", 1), (b"run\n\nrun", 3), (b"run\r\nrun\r", 2)])
def test_empty_and_broken_files(regard, trained, given, lines):
    """B29: an empty file, a blank line alone, no break at the end."""
    assert regard("tag", trained, "-", stdin=given).stdout.count("\n") == lines


def test_batch_mates_and_padding_change_no_tag(trained):
    """K6 (B21, B22): the same line has the same answer beside whatever others."""
    tagger = load(trained)
    texts = ["they run", "the run softly they walk .", "", "zork"]
    alone = [tagger.tag([text])[0] for text in texts]
    for batch in (1, 2, 4):
        for one, other in zip(tagger.tag(texts, batch=batch), alone, strict=True):
            assert one.words == other.words and one.tags == other.tags
            for some, same in zip(one.probabilities, other.probabilities, strict=True):
                assert some == pytest.approx(same, abs=1e-6)


def test_words_beyond_the_limit_count_as_wrong(trained, tmp_path, regard):
    path = tmp_path / "long.conllu"
    path.write_text(sentence(["they", "run"] * 13), encoding="utf-8")
    evaluation = json.loads(regard("evaluate", trained, f"treebank={path}", "--format", "json").stdout)
    assert evaluation["words"] == 26 and evaluation["measures"]["accuracy"] == 0.5
    assert "26 words are more" in evaluation["notes"][0]


def test_a_tag_that_training_did_not_have_counts_as_wrong_and_is_reported_with_its_line(regard, trained, tmp_path):
    path, other = tmp_path / "other.conllu", sentence(["they"]).replace("PRON", "PRN")
    path.write_text(sentence(["the", "run"]) + other, encoding="utf-8")
    evaluation = json.loads(regard("evaluate", trained, f"treebank={path}", "--format", "json").stdout)
    assert evaluation["measures"]["accuracy"] == pytest.approx(2 / 3)
    [note] = evaluation["notes"]
    assert "1 words have a tag that does not occur in training ('PRN')" in note
    assert "line 4" in note and "'PRON'" in note
    path.write_text(other, encoding="utf-8")
    assert "These are tags of another kind" in regard("evaluate", trained, f"treebank={path}", code=1).stderr


def test_every_head_is_shown(regard, trained, tmp_path):
    path = tmp_path / "heads.json"
    regard("show", trained, "they run.", "--heads", "--out", path)
    view = json.loads(path.read_text(encoding="utf-8"))
    assert view["kind"] == "heads" and len(view["matrices"]) == 2
    for matrix in view["matrices"]:
        assert matrix["rows"] == matrix["columns"] == ["they", "run", "."]
        torch.testing.assert_close(torch.tensor(matrix["values"]).sum(-1), torch.ones(3))
    assert "they/PRON run/VERB ./PUNCT" in view["notes"]
    assert "the text is empty" in regard("show", trained, " ", code=1).stderr


def test_a_stopped_training_continues_bit_for_bit(regard, treebank, tmp_path):
    """B33: stopped in the middle of an epoch and resumed, the weights are those of the unbroken run."""
    given = [f"data.treebank={treebank}", *(one for one in TINY if not one.startswith("training.steps"))]
    for name, steps in (("whole", 7), ("broken", 4)):
        regard("train", "tagging", *given, "training.decay=none", f"training.steps={steps}", "--run", tmp_path / name,
               "--threads", 1, "--quiet")  # fmt: skip
    regard("train", "--resume", tmp_path / "broken", "training.steps=7", "--quiet")
    weights = [(tmp_path / name / "checkpoints").glob("*7/model.safetensors") for name in ("whole", "broken")]
    whole, broken = (next(iter(found)).read_bytes() for found in weights)
    assert whole == broken


@pytest.mark.parametrize(
    ("given", "message", "code"),
    [
        (["data.treebank=none.conllu"], "no such file", 1),
        ([], "no sentences to train on", 2),
        (["data.treebank=a", "data.column=pos"], "data.column", 2),
        (["data.treebank=a", "model.heads=5"], "heads must share dim evenly", 2),
        (["data.treebank=a", "model.position=learned", "model.context=7"], "set data.max_length=7", 2),
    ],
)
def test_what_is_wrong_is_reported(regard, tmp_path, given, message, code):
    assert message in regard("train", "tagging", *given, "--run", tmp_path / "run", code=code).stderr


def test_copies_of_one_sentence_are_not_told_to_need_a_larger_share_alone(regard, tmp_path):
    one = "1\tDogs\tdog\tNOUN\t_\t_\t0\troot\t_\t_\n\n"
    (tmp_path / "same.conllu").write_text(one * 20, encoding="utf-8")
    result = regard("train", "tagging", f"data.treebank={tmp_path / 'same.conllu'}", "--run", tmp_path / "run", code=1)
    assert "20 sentences (1 of them different; copies of one are all in one part)" in result.stderr
    assert "Give more different ones" in result.stderr


def test_a_run_of_another_task_is_refused(regard, trained):
    assert "needs one of masked" in regard("fill", trained, "a", code=2).stderr


def test_one_text_is_not_taken_for_its_characters(trained):
    with pytest.raises(DataError, match="a list of texts is expected"):
        load(trained).tag("they run")
