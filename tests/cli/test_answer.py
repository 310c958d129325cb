"""`regard train reading`, `answer`, `evaluate` and `show`, on a tiny run."""

import json

import pytest

TINY = [
    "data.made.facts=1", "data.made.questions=2", "data.made.count=4", "data.validation=3", "data.batch=2",
    "model.embedding_dim=7", "model.machine.kind=dnc", "model.machine.width=11", "model.machine.slots=5",
    "model.machine.slot_dim=3", "training.steps=2", "training.validate_every=2",
]  # fmt: skip
STORY = "1 Mary went to the garden.\n2 John moved to the office.\n3 Where is Mary?\tgarden\t1\n4 Where is John?\n"


@pytest.fixture(scope="module")
def trained(regard, tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "reader"
    regard("train", "reading", "--run", run, "--threads", 1, "--quiet", *TINY)
    return run


def test_a_question_in_is_a_line_out_from_a_file_and_from_standard_input(regard, trained, tmp_path):
    path = tmp_path / "stories.txt"
    path.write_text(STORY + "\n" + STORY, encoding="utf-8")
    from_file = regard("answer", trained, path).stdout
    lines = from_file.splitlines()
    assert len(lines) == 4 and lines[:2] == lines[2:]
    answer, probability = lines[0].split("\t")
    assert answer in ("bathroom", "bedroom", "garden", "hallway", "kitchen", "office") and 0 < float(probability) < 1
    assert regard("answer", trained, "-", stdin=path.read_bytes()).stdout == from_file


def test_one_story_and_a_question(regard, trained, tmp_path):
    asked = regard("answer", trained, "--story", "Mary went to the garden. John left.", "--question", "Where is Mary",
                   "--format", "jsonl")  # fmt: skip
    entry = json.loads(asked.stdout)
    assert entry["question"] == "Where is Mary" and [one["line"] for one in entry["read"]] == [1, 2]
    assert "the model has never read 'left'" in asked.stderr
    path = tmp_path / "story.txt"
    path.write_text("Mary went to the garden.\nJohn moved to the office.\n")
    by_file = regard("answer", trained, "--story", path, "--question", "Where is Mary?").stdout
    by_text = regard("answer", trained, "--story", path.read_text(), "--question", "Where is Mary?").stdout
    assert by_file == by_text == regard(
        "answer", trained, "--story", "-", "--question", "Where is Mary?", stdin=path.read_bytes()
    ).stdout  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--story", "", "--question", "Where is Mary?"], 1, "the story is empty"),
        (["--story", "Mary went.", "--question", "?"], 1, "has no words"),
        (["--story", "Mary went."], 1, "there is no question"),
        ([], 2, "name a file of stories"),
        (["-", "--story", "Mary went."], 2, "name a file of stories"),
        (["-", "--question", "Where?"], 2, "--question is asked of one story"),
        (["nowhere.txt"], 2, "nowhere.txt: no such file"),
        (["x" * 81], 2, f"error: {'x' * 79}…: no such file"),
        (["."], 2, ".: is a folder; a file of stories is expected"),
        (["--story", "nowhere.txt", "--question", "Where?"], 1, "nowhere.txt: no such file"),
        (["--story", ".", "--question", "Where?"], 1, ". is a folder"),
    ],
)
def test_what_cannot_be_answered_is_reported(regard, trained, arguments, code, message):
    assert message in regard("answer", trained, *arguments, stdin=b"", code=code).stderr


@pytest.mark.parametrize("given", [b"", b"\n \n", b"1 Mary went to the garden.\n"])
def test_no_question_in_is_no_line_out(regard, trained, tmp_path, given):
    """B15: an empty file, blank lines, a story that asks nothing: nothing is written, and the exit code is 0."""
    path = tmp_path / "stories.txt"
    path.write_bytes(given)
    for result in (regard("answer", trained, path), regard("answer", trained, "-", "--format", "jsonl", stdin=given)):
        assert result.stdout == "" and result.stderr == ""


def test_a_bad_line_of_standard_input_is_named(regard, trained):
    assert "standard input, line 2: it has the number 7" in regard(
        "answer", trained, "-", stdin=b"1 Mary went.\n7 Where?\n", code=1
    ).stderr  # fmt: skip
    assert "line 1: byte 0xff" in regard("answer", trained, "-", stdin=b"1 M\xff.\n", code=1).stderr


def test_long_sentences_are_cut_aloud(regard, trained):
    result = regard("answer", trained, "--story", "Mary went " * 20 + ". Where is Mary?", code=1)
    assert result.stdout.count("\n") == 1 and "more than 30 words" in result.stderr


def test_evaluate_and_show(regard, trained, tmp_path):
    path = tmp_path / "stories.txt"
    path.write_text(STORY.replace("John?", "John?\toffice\t2"))
    evaluation = json.loads(regard("evaluate", trained, f"babi={path}", "--format", "json").stdout)
    assert evaluation["questions"] == 2 and evaluation["baselines"] == {"chance": 0.5}
    shown = regard("show", trained, "Mary went to the garden. Where is Mary?").stdout
    assert "read" in shown and "usage" in shown
    regard("show", trained, "--out", tmp_path / "story.html")
    assert "Where is" in (tmp_path / "story.html").read_text(encoding="utf-8")
