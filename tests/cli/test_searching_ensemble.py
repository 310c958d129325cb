"""Several runs decoded together: `--with`, and `regard.ensemble`."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

import regard as library
from regard.errors import RunError

ENOUGH = ["--beam", 3, "--n-best", 2, "--format", "jsonl", "--align", "soft", "--max-length", 5]


@pytest.fixture(scope="module")
def other(run, tmp_path_factory):
    """A run like `run` with weights of its own."""
    folder = tmp_path_factory.mktemp("other") / "run"
    shutil.copytree(run, folder)
    torch.manual_seed(1)
    weights = {name: one + 0.2 * torch.randn_like(one) for name, one in load_file(run / "model.safetensors").items()}
    save_file(weights, folder / "model.safetensors")
    return folder


def test_a_run_with_itself_is_the_run(regard, run, files):
    """Exact texts and alignments, scores to 1e-5; in batches, where rows leave and beams cross (B21, B41)."""
    lines = (files / "test.en").read_text(encoding="utf-8").splitlines()[:4]
    alone = regard("translate", run, "-", *ENOUGH, stdin="\n".join(lines) + "\n\n").stdout.splitlines()
    both = regard("translate", run, "-", "--with", run, *ENOUGH, stdin="\n".join(lines) + "\n\n").stdout.splitlines()
    assert len(alone) == len(both) == 5
    for one, same in zip(map(json.loads, alone), map(json.loads, both), strict=True):
        for output, its in zip(one["outputs"], same["outputs"], strict=True):
            assert output["pieces"] == its["pieces"] and output["text"] == its["text"]
            assert output["score"] == pytest.approx(its["score"], abs=1e-5)
            if output["alignment"] is not None:
                torch.testing.assert_close(torch.tensor(output["alignment"]), torch.tensor(its["alignment"]))


def test_two_runs_give_the_mean_of_their_probabilities(run, other):
    """One forced piece: p = (p1 + p2) / 2, and √(p1 p2) made to sum to 1; weights are the mean of both."""
    members = [library.load(run), library.load(other)]
    joint, logs = library.ensemble([run, other]), library.ensemble([run, other], mean="log")

    def chances(translator):
        model = translator.model
        source, lengths = torch.tensor([[5, 9, 3]]), torch.tensor([3])
        with torch.no_grad():
            step = model.decoder.step(model.decoder.start(model.encode(source, lengths), 1), torch.tensor([[2, 7]]))
        return step.logits[0].softmax(-1), step.attended[model.decoder.alignment].weights[0]

    (one, looked), (two, looked_too) = map(chances, members)
    mean, weights = chances(joint)
    torch.testing.assert_close(mean, (one + two) / 2)
    torch.testing.assert_close(weights, (looked + looked_too) / 2)
    geometric = (one * two).sqrt()
    torch.testing.assert_close(chances(logs)[0], geometric / geometric.sum(-1, keepdim=True))


def test_evaluate_takes_several_runs_and_keeps_nothing_in_the_first(regard, run, other, files):
    before = sorted(path.name for path in run.iterdir())
    test = ["--source", files / "test.en", "--target", files / "test.fr", "--max-length", 1]
    evaluation = json.loads(regard("evaluate", run, "--with", other, *test, "--format", "json").stdout)
    assert evaluation["runs"] == [str(run), str(other)] and evaluation["mean"] == "probability"
    assert evaluation["pairs"] == 20
    assert sorted(path.name for path in run.iterdir()) == before


def test_other_vocabularies_are_refused_by_the_runs_names(regard, run, tmp_path):
    shutil.copytree(run, tmp_path / "cut")
    file = tmp_path / "cut" / "tokenizers" / "target" / "tokenizer.json"
    content = json.loads(file.read_text())
    key = next(key for key, value in content.items() if isinstance(value, list))
    file.write_text(json.dumps({**content, key: content[key][::-1]}))
    with pytest.raises(RunError, match="different target vocabularies") as error:
        library.ensemble([run, tmp_path / "cut"])
    assert str(run) in str(error.value) and str(tmp_path / "cut") in str(error.value)
    assert "name the others" in regard("translate", run, "a", "--mean", "log", code=2).stderr
    assert "no such folder" in regard("translate", run, "a", "--with", tmp_path / "none", code=1).stderr
