"""`regard train pointing`, `solve`, `show` and `evaluate` on points, by a tiny network."""

import json

import pytest

TINY = ["data.problem=hull", "data.shortest=3", "data.longest=5", "data.sets=8", "data.batch=4", "data.validation=5",
        "model.width=8", "training.steps=3"]  # fmt: skip
CSV = "x,y\n0,0\n1,0\n0.4,1\n\n0,0\n2,0\n2,2\n0,2\n1,1\n"


@pytest.fixture(scope="module")
def hull(regard, tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "hull"
    regard("train", "pointing", "--run", run, "--threads", 1, "--quiet", *TINY)
    return run


def test_a_set_in_is_a_line_out_from_csv_json_and_a_pipe_k8(regard, hull, tmp_path):
    given = tmp_path / "points.csv"
    given.write_text(CSV, encoding="utf-8")
    answers = regard("solve", hull, given).stdout
    first, second = answers.splitlines()
    assert sorted(first.split()) == ["1", "2", "3"] and set(second.split()) <= set("12345")
    assert regard("solve", hull, "-", stdin=CSV.encode()).stdout == answers
    sets = [[[0, 0], [1, 0], [0.4, 1]], {"points": [[0, 0], [2, 0], [2, 2], [0, 2], [1, 1]]}]
    (tmp_path / "points.json").write_text(json.dumps(sets, indent=1), encoding="utf-8")
    assert regard("solve", hull, tmp_path / "points.json").stdout == answers
    assert regard("solve", hull, "0,0 1,0 0.4,1").stdout == first + "\n"
    regard("solve", hull, given, "--out", tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_text(encoding="utf-8") == answers
    entries = [
        json.loads(line) for line in regard("solve", hull, given, "--format", "jsonl", "--beam", 3).stdout.splitlines()
    ]
    assert entries[0]["points"] == sets[0] and sorted(entries[0]["answer"]) == [1, 2, 3]
    assert 0 < entries[1]["probability"] <= 1
    for nothing in (b"", b"\n \n", b"[]"):
        answered = regard("solve", hull, "-", stdin=nothing)
        assert answered.stdout == ""  # B15
        assert answered.stderr == "standard input has no points; there is nothing to solve\n"
    assert "the text has no points" in regard("solve", hull, "").stderr
    for words in ("x,y\n", "hello wide world\n", "x,y\n\n", "x" * 80 + ",y"):
        answered = regard("solve", hull, "-", stdin=words.encode())
        assert answered.stdout == ""
        line = words.strip() if len(words) < 60 else "x" * 59 + "…"
        taken = f"only a line of words, {line!r}, which was taken for names of columns"
        assert answered.stderr == f"standard input has no points, {taken}; there is nothing to solve\n"


def test_answers_are_drawn(regard, hull, tmp_path):
    given = tmp_path / "points.csv"
    given.write_text(CSV, encoding="utf-8")
    page = tmp_path / "hull.html"
    assert "Written to" in regard("solve", hull, given, "--draw", page, "--draw", tmp_path / "hull.json").stderr
    assert page.read_text(encoding="utf-8").count("<svg") == 2
    assert len(json.loads((tmp_path / "hull.json").read_text(encoding="utf-8"))["matrices"]) == 2
    assert "the name's ending" in regard("solve", hull, given, "--draw", "hull.bmp", code=2).stderr
    assert "is the input itself" in regard("solve", hull, given, "--draw", given, code=2).stderr
    shown = regard("show", hull, "0,0 1,0 0.4,1", "--lang", "zh").stdout
    assert "3 个点的凸包" in shown and "结束" in shown and "第 1 步" in shown
    assert "the convex hull of 7 points" in regard("show", hull, "--length", 7).stdout


def test_what_is_wrong_is_named(regard, hull, tmp_path):
    given = tmp_path / "points.csv"
    given.write_text("0,0\n1,0\n0,?\n", encoding="utf-8")
    message = regard("solve", hull, given, "--out", tmp_path / "out.txt", code=1).stderr
    assert f"{given}, line 3: '?' is no number" in message and not (tmp_path / "out.txt").exists()
    assert "the text, line 1: a set of 2; hull needs 3" in regard("solve", hull, "0,0 1,0", code=1).stderr
    assert "no such file" in regard("solve", hull, "absent.csv", code=1).stderr


def test_it_is_measured(regard, hull):
    evaluation = json.loads(regard("evaluate", hull, "sets=4", "--format", "json").stdout)
    assert [row["points"] for row in evaluation["lengths"]] == ["3", "4", "5"]
    assert evaluation["measures"]["exact_shortest"] == 1
    assert "coverage" in evaluation["measures"] and evaluation["baselines"] == {}
