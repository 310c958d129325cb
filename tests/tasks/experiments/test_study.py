"""`regard study` on a study of a user's own: every row is run and told, and what is finished is not run again."""

import json
import re

import pytest
import yaml
from typer.testing import CliRunner

from regard.cli.app import app

STUDY = {
    "name": "tiny",
    "title": "Tiny models of phrases",
    "minutes": 1,
    "terms": ["Two steps each."],
    "evaluate": {"phrases": {"count": 11, "seed": 5}},
    "edges": [4, 7],
    "columns": ["bleu", "perplexity", "entropy", "aer", "steps", "parameters", "processor_minutes"],
    "lengths": {"measure": "perplexity"},
    "config": {
        "task": "translation",
        "threads": 1,
        "data": {"phrases": {"count": 60}, "tokenizer": "words", "held_out": 5},
        "model": {"embedding_dim": 7, "encoder_dim": 5, "attention_dim": 3},
        "training": {"steps": 2},
        "search": {"max_length": 7},
    },
    "rows": [
        {"name": "none", "title": "no attention", "config": {"model": {"attention": "none"}}},
        {
            "name": "broken",
            "title": "too few positions",
            "config": {"model": {"attention": "location", "attention_options": {"positions": 2}}},
        },
        {"name": "dot", "title": "dot", "config": {"model": {"attention": "dot"}}},
    ],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("study")


def call(folder, study, *arguments, code):
    file = folder / "tiny.yaml"
    file.write_text(yaml.safe_dump(study), encoding="utf-8")
    result = CliRunner().invoke(app, ["study", str(file), "--run", str(folder / "runs"), *arguments])
    assert result.exit_code == code, result.stderr
    return result


def cells(result, row):
    [line] = [line for line in result.stdout.splitlines() if line.startswith(f"{row} ")]
    return line.split()


def test_rows_are_run_reported_kept_and_not_run_again(folder):
    first = call(folder, STUDY, "--only", "none", code=0)
    assert "not run" in " ".join(cells(first, "dot")) and (folder / "runs" / "table.md").is_file()
    weights = folder / "runs" / "none" / "seed-0" / "model.safetensors"
    before = weights.stat().st_mtime_ns

    second = call(folder, STUDY, code=1)  # a row fails, and the others are run all the same
    assert weights.stat().st_mtime_ns == before and "none, seed 0" not in second.stderr
    assert "broken, seed 0, failed: " in second.stderr and "positions" in second.stderr
    table = {one["row"]: one for one in json.loads((folder / "runs" / "table.json").read_text("utf-8"))["rows"]}
    assert "positions" in table["broken"]["failure"] and table["broken"]["values"] == {}
    assert table["none"]["values"].keys() >= {"bleu", "perplexity", "parameters"}
    assert {"entropy", "aer"}.isdisjoint(table["none"]["values"]) and 0 < table["dot"]["values"]["entropy"] < 3
    evaluated = json.loads((folder / "runs" / "dot" / "seed-0" / "evaluations.json").read_text("utf-8"))
    assert [entry["data"] for entry in evaluated] == ["tiny"] and evaluated[0]["pairs"] == 11
    assert [one["length"] for one in table["dot"]["lengths"]][-2:] == ["4–6", "7+"]
    assert f"{table['dot']['values']['perplexity']:.2f}" in cells(second, "dot")
    chart = second.stdout.split("perplexity\nmodel ↓")[1]
    assert len(re.findall(r"[▁-█]\d", chart)) == 4 and "too few positions" not in chart
    for ending in ("png", "svg", "html"):
        assert (folder / "runs" / f"by_length.{ending}").stat().st_size > 3000

    chinese = call(folder, STUDY, "--only", "none", "--lang", "zh", code=0)
    assert weights.stat().st_mtime_ns == before
    assert chinese.stdout.split()[:4] == ["行", "BLEU", "困惑度", "熵"] and "困惑度\n模型 ↓" in chinese.stdout
    page = (folder / "runs" / "table.md").read_text("utf-8")
    assert "| 行 |  | BLEU | 困惑度 | 熵 | AER | 步数 | 参数 | 处理器分钟 | 备注 |" in page
    assert "困惑度，按原文词数：" in page and "各长度（原文词数）的测试句对数：" in page


def test_another_test_set_is_evaluated_anew_and_another_model_is_refused(folder):
    rows = [row for row in STUDY["rows"] if row["name"] != "broken"]
    call(folder, {**STUDY, "rows": rows}, code=0)
    weights = folder / "runs" / "dot" / "seed-0" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    call(folder, {**STUDY, "rows": rows, "evaluate": {"phrases": {"count": 13, "seed": 5}}}, "--only", "dot", code=0)
    [entry] = json.loads((folder / "runs" / "dot" / "seed-0" / "evaluations.json").read_text("utf-8"))
    assert entry["pairs"] == 13 and weights.stat().st_mtime_ns == before
    changed = [rows[0], {**rows[1], "config": {"model": {"attention": "general"}}}]
    refused = call(folder, {**STUDY, "rows": changed}, "--only", "dot", code=1)
    assert "model.attention: saved dot, now general" in refused.stderr
    assert weights.stat().st_mtime_ns == before


def test_the_list_and_wrong_calls():
    runner = CliRunner()
    listed = runner.invoke(app, ["study", "--list"])
    assert listed.exit_code == 0 and "multi30k-attentions" in listed.stdout and "multi30k-length" in listed.stdout
    one = runner.invoke(app, ["study", "multi30k-attentions", "--list"])
    assert one.exit_code == 0 and "{model: {attention: cosine, attention_options: {strength: 10.0}}}" in one.stdout
    chinese = runner.invoke(app, ["study", "multi30k-attentions", "--list", "--lang", "zh"])
    assert chinese.exit_code == 0 and "\n分钟        每行每个种子 6\n" in chinese.stdout
    assert "自己的设置" in chinese.stdout and "minutes     " not in chinese.stdout
    assert runner.invoke(app, ["study", "--list", "--lang", "zh"]).stdout.split()[:4] == [
        "研究",
        "每行分钟",
        "行数",
        "问题",
    ]
    for arguments, code, message in (
        ([], 2, "name a study"),
        (["multi30k-length", "--only", "non"], 2, "Did you mean 'none'"),
        (["multi30k-length", "--seeds", "0,0"], 2, "different numbers"),
        (["multi30k-length"], 1, "--data DIR"),
    ):
        result = runner.invoke(app, ["study", *arguments])
        assert result.exit_code == code and message in result.stderr
