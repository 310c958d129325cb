"""`regard reproduce` on a recipe of a user's own: trains each seed, compares with the band, and says so."""

import hashlib
import json

import pytest
from typer.testing import CliRunner

from regard.cli.app import app
from regard.data.synthetic.phrases import phrases

RECIPE = """
name: tiny
title: A recipe for tests
paper: none
published: {{value: null, where: nowhere}}
bands:
  - {{metric: perplexity, at_most: {at_most}}}
ours: {{}}
minutes: 1
deviations: []
data:
  origin: https://example.org/tiny
  files:
    - {{name: pairs.tsv, sha256: {sha256}}}
    - {{name: test.en, sha256: {sha256_en}}}
    - {{name: test.fr, sha256: {sha256_fr}}}
evaluate: {{source: "${{data}}/test.en", target: "${{data}}/test.fr"}}
config:
  task: translation
  data: {{tsv: "${{data}}/pairs.tsv", tokenizer: words, held_out: 5}}
  model: {{embedding_dim: 7, encoder_dim: 5, decoder_dim: 11, attention_dim: 3}}
  training: {{steps: 2}}
  search: {{max_length: 7}}
"""


@pytest.fixture
def folder(tmp_path):
    made = phrases(50, seed=4)
    (tmp_path / "pairs.tsv").write_text("".join(f"{one.source}\t{one.target}\n" for one in made[:40]), encoding="utf-8")
    (tmp_path / "test.en").write_text("".join(f"{one.source}\n" for one in made[40:]), encoding="utf-8")
    (tmp_path / "test.fr").write_text("".join(f"{one.target}\n" for one in made[40:]), encoding="utf-8")
    return tmp_path


def write(folder, at_most):
    digests = [hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in ("pairs.tsv", "test.en", "test.fr")]
    recipe = folder / "tiny.yaml"
    recipe.write_text(
        RECIPE.format(at_most=at_most, sha256=digests[0], sha256_en=digests[1], sha256_fr=digests[2]), encoding="utf-8"
    )
    return recipe


def call(*arguments):
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)], catch_exceptions=False)


def test_each_seed_is_trained_evaluated_and_compared(folder):
    recipe = write(folder, 1e9)
    result = call(recipe, "--data", folder, "--seeds", "0,3", "--run", folder / "runs", "--threads", 1)
    assert result.exit_code == 0, result.stderr
    for seed in (0, 3):
        run = folder / "runs" / f"seed-{seed}"
        assert json.loads((run / "results.json").read_text())["seed"] == seed
        [entry] = json.loads((run / "evaluations.json").read_text(encoding="utf-8"))
        assert entry["data"] == "tiny" and entry["pairs"] == 10
        assert f"{entry['measures']['perplexity']:.4g}" in result.stdout
    assert result.stdout.count("reached") == 2 and "A weight is not an effect" in result.stdout
    assert (folder / "runs" / "examples.html").stat().st_size > 1000


def test_a_missed_band_is_exit_code_1_and_a_begun_run_continues(folder):
    call(write(folder, 1e9), "--data", folder, "--run", folder / "runs", "--threads", 1)
    before = (folder / "runs" / "seed-0" / "model.safetensors").stat().st_mtime_ns
    result = call(write(folder, 1.0), "--data", folder, "--run", folder / "runs", "--threads", 1)
    assert result.exit_code == 1 and "MISSED" in result.stdout
    assert (folder / "runs" / "seed-0" / "model.safetensors").stat().st_mtime_ns == before


def test_other_files_are_refused_unless_the_user_insists(folder):
    recipe = write(folder, 1e9)
    with open(folder / "test.en", "a", encoding="utf-8") as file:
        file.write("at noon\n")
    with open(folder / "test.fr", "a", encoding="utf-8") as file:
        file.write("à midi\n")
    refused = call(recipe, "--data", folder, "--run", folder / "runs")
    assert refused.exit_code == 1 and "https://example.org/tiny" in refused.stderr and "--unverified" in refused.stderr
    assert not (folder / "runs").exists()
    taken = call(recipe, "--data", folder, "--run", folder / "runs", "--unverified", "--threads", 1)
    assert taken.exit_code == 0 and taken.stderr.count("is another file") == 2
