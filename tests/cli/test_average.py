"""`regard average`: the new run, what it can do, and what is refused."""

import json
import shutil

import torch
import yaml
from safetensors.torch import load_file, save_file


def test_a_runs_last_checkpoints_make_a_run_of_their_own(regard, run, files, tmp_path):
    kept = sorted((run / "checkpoints").glob("step-*"))
    assert len(kept) == 2
    out = regard("average", run, "--out", tmp_path / "mean", "--last", 2).stdout
    assert out.count("sha256") == 2 and "the mean of these 2 weights" in out
    one, other = (load_file(folder / "model.safetensors") for folder in kept)
    mean = load_file(tmp_path / "mean" / "model.safetensors")
    assert mean.keys() == one.keys() and any(not torch.equal(mean[name], one[name]) for name in one)
    for name, tensor in mean.items():
        assert torch.equal(tensor, ((one[name].double() + other[name].double()) / 2).float())
    results = json.loads((tmp_path / "mean" / "results.json").read_text())
    assert results["parameters"] == json.loads((run / "results.json").read_text())["parameters"]
    assert [entry["weights"] for entry in results["averaged"]] == [str(kept[1] / "model.safetensors"),
                                                                   str(kept[0] / "model.safetensors")]  # fmt: skip
    assert regard("translate", tmp_path / "mean", "at noon").stdout.count("\n") == 1
    assert "mean" in regard("compare", run, tmp_path / "mean").stdout
    message = regard("train", "--resume", tmp_path / "mean", code=1).stderr
    assert "the mean of 2 weights, not a training" in message
    assert "is there already" in regard("average", run, "--out", tmp_path / "mean", code=1).stderr
    message = regard("average", run, "--out", tmp_path / "none", "--last", 3, code=1).stderr
    assert "holds 2 checkpoints, and 3 are wanted" in message and "training.keep=3" in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mean"]


def test_runs_of_another_beginning_are_refused_and_named(regard, run, tmp_path):
    shutil.copytree(run, tmp_path / "other", ignore=shutil.ignore_patterns("checkpoints", "events"))
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["training"]["learning_rate"] = 0.5  # another way from the same beginning
    (tmp_path / "other" / "config.yaml").write_text(yaml.safe_dump(config))
    weights = load_file(run / "model.safetensors")
    save_file({name: 3 * tensor for name, tensor in weights.items()}, tmp_path / "other" / "model.safetensors")
    regard("average", run, tmp_path / "other", "--out", tmp_path / "mean")
    for name, tensor in load_file(tmp_path / "mean" / "model.safetensors").items():
        torch.testing.assert_close(tensor, 2 * weights[name])
    config["seed"], config["model"]["cell"] = 6, "lstm"
    (tmp_path / "other" / "config.yaml").write_text(yaml.safe_dump(config))
    message = regard("average", run, tmp_path / "other", "--out", tmp_path / "none", code=1).stderr
    assert "seed: 5 and 6" in message and "model.cell: gru and lstm" in message and "learning_rate" not in message
    assert (
        "last counts the checkpoints"
        in regard("average", run, run, "--last", 2, "--out", tmp_path / "none", code=2).stderr
    )
    assert not (tmp_path / "none").exists()
