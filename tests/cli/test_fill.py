"""`regard train masked`, `fill`, `evaluate` and `show`, on a run that has learned a small language."""

import json

import pytest
import torch

from regard.data.chance import Chance
from regard.errors import DataError
from regard.tasks.core.load import load

TINY = [
    "model.dim=32", "model.feed_forward_dim=32", "model.heads=2", "model.layers=1", "model.position=rotary",
    "model.dropout=0", "data.window=16", "data.batch=16", "data.validation_share=0.1", "data.test_share=0.1",
    "training.steps=90", "training.learning_rate=0.02", "training.warmup_steps=5", "training.validate_every=45",
    "data.masking.share=0.25",
]  # fmt: skip
LINE = "one two three red five six ."


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Of eight pieces a line, its end counted, one is red or blue and seven are always the same."""
    path, chance = tmp_path_factory.mktemp("text") / "lines.txt", Chance("lines")
    lines = [LINE.replace("red", chance.choose(["red", "blue"])) + "\n" for _ in range(240)]
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def trained(regard, text, tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "tiny"
    regard("train", "masked", f"data.text={text}", "--run", run, "--threads", 1, "--quiet", *TINY)
    return run


def test_it_has_learned(regard, trained, text):
    evaluation = json.loads(regard("evaluate", trained, "--format", "json").stdout)
    trigrams, usual = (
        evaluation["baselines"][name] for name in ("trigrams, both sides known", "the most frequent piece")
    )
    # Trigrams know all but the colour: 7.5 of 8 pieces, or 7.4 as one of the colours is the likelier.
    assert trigrams == pytest.approx(0.9375, abs=0.06) and usual == pytest.approx(0.125, abs=0.09)
    assert evaluation["measures"]["accuracy"] > 0.6
    assert evaluation == json.loads(regard("evaluate", trained, "--format", "json").stdout)  # the same gaps each time
    other = json.loads(regard("evaluate", trained, f"text={text}", "--format", "json").stdout)
    assert other["gaps"] > 5 * evaluation["gaps"] and "words, of " in other["signatures"]["accuracy"]


def test_gaps_are_filled_from_both_sides(regard, trained):
    for word in ("two", "five", "six"):
        assert regard("fill", trained, LINE.replace(word, "[MASK]")).stdout == LINE + "\n"
    output = regard("fill", trained, LINE.replace("red", "[MASK]"), "--format", "jsonl", "--top", 3).stdout
    [gap] = json.loads(output)["gaps"]
    assert {"red", "blue"} < set(gap) and len(gap) == 3 and sum(gap.values()) < 1


def test_one_line_in_is_one_line_out_whatever_the_line(regard, trained, tmp_path):
    """K8: B28, B29, B31; what is no gap stays as it was written, spaces, unknown words and private characters too."""
    lines = [
        LINE.replace("five", "[MASK]"), "", "  no gap here  ", "[MASK]", "zork 中 😀\t[MASK] \ue000!",
        "one [MASK] three " * 9, "one [MASK] three red five [MASK]."
    ]  # fmt: skip
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    result = regard("fill", trained, path, "--batch", 2, code=1)
    out = result.stdout.split("\n")
    assert len(out) == 8 and out[:3] == [LINE, "", "  no gap here  "]
    assert "[MASK]" not in out[3] and out[4].startswith("zork 中 😀\t") and out[4].endswith(" \ue000!")
    assert out[5] == lines[5] and "warning: line 6: 29 tokens" in result.stderr
    assert out[6].startswith("one two three red five ") and "[MASK]" not in out[6] and out[6].endswith(".")
    objects = [json.loads(line) for line in regard("fill", trained, path, "--format", "jsonl", "--top", 3, code=1)
               .stdout.splitlines()]  # fmt: skip
    assert [one["text"] for one in objects] == lines and [one["filled"] for one in objects] == out[:7]
    assert [len(one["gaps"]) for one in objects] == [1, 0, 0, 1, 1, 0, 2] and "note" in objects[5]
    [first] = objects[0]["gaps"]
    assert next(iter(first)) == "five" and len(first) == 3 and first["five"] > 0.4
    assert list(first.values()) == sorted(first.values(), reverse=True)


def test_batch_mates_and_padding_change_no_answer(trained):
    """K6 (B21, B22): the same line has the same answer beside whatever others."""
    filler = load(trained)
    texts = ["one two [MASK] red five six .", "[MASK] two", "", "five [MASK]"]
    alone = [filler.fill([text])[0] for text in texts]
    for batch in (1, 2, 4):
        for one, other in zip(filler.fill(texts, batch=batch), alone, strict=True):
            assert one.filled == other.filled
            for gap, same in zip(one.gaps, other.gaps, strict=True):
                assert gap == pytest.approx(same, abs=1e-6)


def test_every_head_is_shown(regard, trained, tmp_path):
    path = tmp_path / "heads.json"
    regard("show", trained, "one two [MASK] red zork", "--out", path)
    view = json.loads(path.read_text(encoding="utf-8"))
    assert view["kind"] == "heads" and len(view["matrices"]) == 2
    for matrix in view["matrices"]:
        assert matrix["rows"] == matrix["columns"] == ["↵", "one", "two", "[MASK]", "red", "zork", "↵"]
        torch.testing.assert_close(torch.tensor(matrix["values"]).sum(-1), torch.ones(7))
    assert any(note.startswith("[MASK] 1: ") for note in view["notes"]) and "Unknown words: zork" in view["notes"]
    assert "the text is empty" in regard("show", trained, " ", code=1).stderr


def test_without_the_training_text_there_are_no_baselines(regard, text, tmp_path):
    own = tmp_path / "own.txt"
    own.write_bytes(text.read_bytes())
    run = tmp_path / "run"
    regard("train", "masked", f"data.text={own}", "--run", run, "--threads", 1, "--quiet",
           *(one for one in TINY if "training" not in one), "training.steps=1")  # fmt: skip
    own.unlink()
    evaluation = json.loads(regard("evaluate", run, f"text={text}", "--format", "json").stdout)
    assert evaluation["baselines"] == {} and "no baselines" in evaluation["notes"][0]
    assert "own.txt" in evaluation["notes"][0]
    assert "own.txt" in regard("evaluate", run, code=1).stderr


def test_a_stopped_training_continues_bit_for_bit(regard, text, tmp_path):
    """B33: stopped in the middle of an epoch and resumed, the weights are those of the unbroken run."""
    given = [f"data.text={text}", *(one for one in TINY if not one.startswith("training.steps"))]
    for name, steps in (("whole", 14), ("broken", 10)):
        regard("train", "masked", *given, "training.decay=none", f"training.steps={steps}", "--run", tmp_path / name,
               "--threads", 1, "--quiet")  # fmt: skip
    regard("train", "--resume", tmp_path / "broken", "training.steps=14", "--quiet")
    weights = [(tmp_path / name / "checkpoints").glob("*14/model.safetensors") for name in ("whole", "broken")]
    whole, broken = (next(iter(found)).read_bytes() for found in weights)
    assert whole == broken


@pytest.mark.parametrize(
    ("given", "message", "code"),
    [
        (["data.text=none.txt"], "no such file", 1),
        ([], "no text to train on", 2),
        (["data.text=a", "data.masking.masked=0.95"], "parts of one whole", 2),
        (["data.text=a", "model.position=learned", "model.context=32"], "set model.context=64", 2),
    ],
)
def test_what_is_wrong_is_reported(regard, tmp_path, given, message, code):
    assert message in regard("train", "masked", *given, "--run", tmp_path / "run", code=code).stderr


def test_a_run_of_another_task_is_refused(regard, trained):
    assert "needs one of tagging" in regard("tag", trained, "a", code=2).stderr


def test_one_text_is_not_taken_for_its_characters(trained):
    with pytest.raises(DataError, match="a list of texts is expected"):
        load(trained).fill(LINE)
