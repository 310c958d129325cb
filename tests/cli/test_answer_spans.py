"""`regard train reading --data`, `answer`, `evaluate` and `show` of a reader that points, on a tiny run."""

import gzip
import json

import pytest

TINY = [
    "data.validation=1", "data.batch=3", "model.width=12", "model.least=1", "model.affix=0", "training.steps=2",
    "training.validate_every=2", "training.warmup_steps=0",
]  # fmt: skip
TEXT = "Zoë 🙂 wrote “On  Light” in Bern.\r\nBen left."
BABI = "1 Mary went to the garden.\n2 Where is Mary?\tgarden\t1\n3 John left.\n4 Where is Mary?\n"


def squad(*questions):
    qas = [
        {"id": f"q{at}", "question": question, "is_impossible": not answers,
         "answers": [{"text": one, "answer_start": TEXT.index(one)} for one in answers]}
        for at, (question, *answers) in enumerate(questions)
    ]  # fmt: skip
    return {
        "data": [
            {"title": "Light", "paragraphs": [{"context": TEXT, "qas": qas[:2]}, {"context": TEXT, "qas": qas[2:]}]}
        ]
    }


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("squad") / "train.json"
    tree = squad(("Who wrote it?", "Zoë"), ("Who burnt it?",), ("Where?", "Bern", "in Bern"))
    path.write_text(json.dumps(tree), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def trained(regard, file, tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "reader"
    regard("train", "reading", "--data", file, "--run", run, "--threads", 1, "--quiet", *TINY)
    return run


def test_a_question_in_is_a_line_out_k8(regard, trained, file, tmp_path):
    entries = [json.loads(line) for line in regard("answer", trained, file, "--format", "jsonl").stdout.splitlines()]
    assert [one["id"] for one in entries] == ["q0", "q1", "q2"] and entries[0]["question"] == "Who wrote it?"
    for one in entries:
        assert one["answer"] == (TEXT[one["start"] : one["end"]] if one["start"] is not None else "")
        assert 0 < one["probability"] < 1 and 0 < one["no_answer"] < 1
        sentences = [TEXT[each["start"] : each["end"]] for each in one["read"]]
        assert (
            sentences
            == [each["sentence"] for each in one["read"]]
            == ["Zoë 🙂 wrote “On  Light” in Bern.", "Ben left."]
        )
    for name in ("train.JSON", "train.Json.GZ"):
        path = tmp_path / name
        path.write_bytes((gzip.compress if name.endswith("GZ") else bytes)(file.read_bytes()))
        answered = regard("answer", trained, path, "--format", "jsonl").stdout.splitlines()
        assert [json.loads(line)["answer"] for line in answered] == [one["answer"] for one in entries]
    lines = regard("answer", trained, file).stdout.splitlines()
    assert [line.split("\t")[0] for line in lines] == [" ".join(one["answer"].split()) for one in entries]
    path = tmp_path / "stories.txt"
    path.write_text(BABI * 2)
    answered = regard("answer", trained, path)
    from_file = answered.stdout
    assert answered.stderr.count("warning") == 1 and "4 of 4 questions have words" in answered.stderr
    assert from_file.count("\n") == 4
    assert regard("answer", trained, "-", stdin=path.read_bytes()).stdout == from_file


def test_one_story_and_a_question(regard, trained, tmp_path):
    path = tmp_path / "story.txt"
    path.write_text(TEXT, encoding="utf-8", newline="")
    asked = regard("answer", trained, "--story", path, "--question", "Where?", "--format", "jsonl")
    entry = json.loads(asked.stdout)
    text = TEXT.replace("\r\n", "\n")  # however a file ends its lines, an end is one character
    assert entry["place"] == str(path) and entry["answer"] == (
        "" if entry["start"] is None else text[entry["start"] : entry["end"]]
    )
    if entry["answer"]:
        assert f"[{' '.join(entry['answer'].split())}]" in asked.stderr
    by_text = regard("answer", trained, "--story", text, "--question", "Where?").stdout
    assert by_text == regard("answer", trained, "--story", "-", "--question", "Where?", stdin=path.read_bytes()).stdout
    assert by_text == regard("answer", trained, "--story", text + " Where?").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--story", "", "--question", "Where?"], 1, "the story is empty"),
        (["--story", "Ben left.", "--question", "?"], 1, "has no words"),
        (["--story", "Ben left."], 1, "there is no question"),
        ([], 2, "name a file of stories"),
        (["nowhere.json"], 2, "nowhere.json: no such file"),
        (["bad.json"], 1, "bad.json: this is not JSON"),
        (["--story", "Ben left. " * 5000, "--question", "Who?"], 1, "15000 words, and at most 10000"),
    ],
)
def test_what_cannot_be_answered_is_reported(regard, trained, tmp_path, monkeypatch, arguments, code, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.json").write_text("{")
    assert message in regard("answer", trained, *arguments, stdin=b"", code=code).stderr


@pytest.mark.parametrize(
    ("name", "given"),
    [("-", ""), ("stories.txt", ""), ("stories.txt", "1 Ben left.\n"), ("a.json", ""), ("a.json", '{"data": []}')],
)
def test_no_question_in_is_no_line_out(regard, trained, tmp_path, monkeypatch, name, given):
    """B15: nothing is written, and the exit code is 0; to train on it is an error."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(given)
    result = regard("answer", trained, name, stdin=given)
    assert result.stdout == "" and result.stderr == ""
    if name == "a.json":
        assert "a.json: " in regard("train", "reading", "--data", name, "--run", "run", code=1).stderr


def test_evaluate_and_show(regard, trained, file, tmp_path):
    evaluation = json.loads(regard("evaluate", trained, f"squad={file}", "--format", "json").stdout)
    assert evaluation["questions"] == 3 and set(evaluation["measures"]) == {"exact", "f1", "answerable"}
    shown = regard("show", trained, f"{TEXT.splitlines()[0]} Who wrote it?").stdout
    assert "start and end pointer" in shown and "not an effect" in " ".join(shown.split())
    regard("show", trained, "--out", tmp_path / "story.html", "--lang", "zh")
    assert "逐词" in (tmp_path / "story.html").read_text(encoding="utf-8")


def test_a_bad_file_is_named_before_anything_is_made(regard, tmp_path):
    path = tmp_path / "bad.json"
    tree = squad(("Who?", "Zoë"))
    tree["data"][0]["paragraphs"][0]["qas"][0]["answers"][0]["answer_start"] = 4
    path.write_text(json.dumps(tree))
    message = regard("train", "reading", "--data", path, "--run", tmp_path / "run", code=1).stderr
    assert "bad.json, article 'Light', question 'q0': at answer_start 4" in message and not (tmp_path / "run").exists()
    assert "--data is the folder of a recipe's files" in regard("train", "algorithms", "--data", path, code=2).stderr


def test_stories_by_data_are_read_by_either_reader(regard, tmp_path):
    path = tmp_path / "stories.txt"
    path.write_text(BABI)
    shown = regard("train", "reading", "--data", path, "--print-config").stdout
    assert f"babi: {path}" in shown and "kind: sentences" in shown
    shown = regard("train", "reading", "--data", path, "model.kind=span", "model.width=8", "--print-config").stdout
    assert f"babi: {path}" in shown and "kind: span" in shown and "width: 8" in shown
