import json
import math
import random
import shlex
import signal

import numpy
import pytest
import torch
from torch import nn

from regard.errors import ConfigError, DataError, RunError
from regard.training.interrupt import Interrupted
from regard.training.loop import train
from regard.training.progress import Silent
from regard.training.run.checkpoint import checkpoints, load_weights
from regard.training.run.run import RunFolder
from regard.training.update import Diverged
from tests.training.tiny import (
    ITEMS,
    Outcome,
    Sequences,
    Tiny,
    build,
    loss,
    objective,
    run_tiny,
    same_weights,
    settings,
)


def train_tiny(path, model, chosen, batches=None, of=objective, validate=loss, **options):
    return train(RunFolder(path), model, of, batches or Sequences(), validate, chosen, 5, progress="silent", **options)


def plain_training(model: nn.Module, steps: int, rate: float, decay: float, clip: float) -> None:
    """The same training as a textbook has it: means over the big batch, torch's own AdamW, one batch an update."""
    matrices = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    vectors = [parameter for parameter in model.parameters() if parameter.ndim == 1]
    groups = [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98), foreach=False, fused=False)
    data, epoch = Sequences(rows=10), 0
    while steps:
        for indices in data.plan(epoch)[:steps]:
            batch = data.load(indices)
            optimizer.zero_grad()
            logits = model(batch.inputs)[batch.keep]
            nn.functional.cross_entropy(logits, batch.targets[batch.keep]).backward()
            nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            steps -= 1
        epoch += 1


@pytest.mark.parametrize("rows, accumulation", [(10, 1), (5, 2), (1, 10)])
def test_accumulation_equals_the_big_batch(tmp_path, rows, accumulation):
    """Batches of unequal token counts, joined, are the one big batch; an epoch's last update is smaller (29 items)."""
    fast = {"learning_rate": 0.03, "warmup_steps": 0, "decay": "none", "weight_decay": 0.1, "clip": 0.7}
    chosen = settings(steps=7, accumulation=accumulation, **fast)
    model, plain = build(dropout=0).double(), build(dropout=0).double()
    train_tiny(tmp_path, model, chosen, Sequences(rows=rows))
    plain_training(plain, 7, rate=0.03, decay=0.1, clip=0.7)
    for mine, its in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, its, rtol=0, atol=1e-12)
    assert not same_weights(plain, build(dropout=0).double())


def test_it_learns_and_writes_everything_down(tmp_path):
    model, results = run_tiny(tmp_path, dropout=0, steps=60, validate_every=20, log_every=10, learning_rate=0.03)
    assert results == json.loads((tmp_path / "results.json").read_text())
    assert results["ended_by"] == "steps"
    assert results["steps"] == 60
    assert results["epochs"] == 10
    assert results["best"]["accuracy"] == 1.0
    assert results["best"]["loss"] < 0.2
    tokens = sum(2 + item % 6 for item in range(ITEMS))
    assert results["tokens"] == 10 * tokens
    assert results["tokens_per_second"] > 0
    assert results["seconds"] > 0
    assert results["peak_memory_bytes"] > 50e6
    lines = RunFolder(tmp_path).read_metrics()
    assert [(line["kind"], line["step"]) for line in lines] == [
        (kind, step)
        for step in range(10, 61, 10)
        for kind in ("train", "validation")
        if kind == "train" or step % 20 == 0
    ]
    assert all(math.isfinite(value) for line in lines for value in line.values() if not isinstance(value, str))
    assert {"epoch", "loss", "accuracy", "gradient_norm", "tokens_per_second", "learning_rate"} <= lines[0].keys()
    assert loss(model.eval()) == results["last"]
    assert [path.name for path in checkpoints(tmp_path / "checkpoints")] == ["step-00000060", "step-00000059"]


def test_tensorboard_has_the_same_numbers(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run_tiny(tmp_path, steps=6)
    events = EventAccumulator(str(tmp_path / "events")).Reload()
    written = {event.step: event.value for event in events.Scalars("train/loss")}
    lines = [line for line in RunFolder(tmp_path).read_metrics() if line["kind"] == "train"]
    assert written == pytest.approx({line["step"]: line["loss"] for line in lines})
    assert len(written) == 2
    assert [event.step for event in events.Scalars("validation/accuracy")] == [4, 6]


@pytest.mark.parametrize(
    "bound", [{"epochs": 2}, {"steps": 12}, {"epochs": 2, "steps": 99}, {"epochs": 9, "steps": 12}]
)
def test_the_bound_that_comes_first_ends_the_run(tmp_path, bound):
    plain = {"steps": None, "validate_every": None, **bound}
    _, results = run_tiny(tmp_path, **plain)
    assert results["steps"] == 12
    assert results["ended_by"] == ("epochs" if bound.get("epochs") == 2 else "steps")
    validated = [line["step"] for line in RunFolder(tmp_path).read_metrics() if line["kind"] == "validation"]
    assert validated == [6, 12], "at each epoch's end"


def test_a_run_bound_by_minutes_ends_in_time_and_resumes_with_the_time_spent(tmp_path):
    bound = {"minutes": 0.02, "steps": None, "validate_every": 10_000, "pause": 0.01, "save_every": None}
    reported = []

    class Own(Silent):
        def update(self, step, done, left, numbers, line):
            reported.append((step, done))

    with pytest.raises(Interrupted):
        run_tiny(tmp_path, signal_at=10, progress=Own(), **bound)
    _, results = run_tiny(tmp_path, resume=True, progress=Own(), **bound)
    assert [step for step, _ in reported] == list(range(1, results["steps"] + 1))
    assert 0.1 / 1.2 < reported[9][1] < reported[10][1], "the time before the stop counts"
    assert results["ended_by"] == "minutes"
    assert results["seconds"] >= 1.2
    assert RunFolder(tmp_path).read_metrics()[-2]["learning_rate"] < 0.02 * 0.2, "decayed by the clock"


def test_a_run_bound_by_processor_time_does_not_count_the_time_it_waits(tmp_path):
    """Two runs that share a machine are on equal terms; a resumed one goes on counting."""
    bound = {"processor_minutes": 0.005, "steps": None, "validate_every": 10_000, "pause": 0.01, "save_every": None}
    with pytest.raises(Interrupted):
        run_tiny(tmp_path, signal_at=5, **bound)
    _, results = run_tiny(tmp_path, resume=True, **bound)
    assert results["ended_by"] == "processor_minutes"
    assert 0.3 <= results["processor_seconds"] < results["seconds"]
    assert results["seconds"] >= 0.01 * results["steps"] + 0.2
    assert RunFolder(tmp_path).read_metrics()[-2]["learning_rate"] < 0.02 * 0.2, "decayed by the same clock"


@pytest.mark.parametrize(
    "better, values, last", [("min", [5, 3, 4, 3, 9, 1], 5), ("max", [1, 3, 2, float("nan"), 3], 5)]
)
def test_early_stopping_waits_for_patience_validations(tmp_path, better, values, last):
    """Neither a tie nor NaN is better; the weights of the best validation are the ones in model.safetensors."""
    given, kept = iter(values), []

    def validate(model):
        kept.append({name: weights.clone() for name, weights in model.state_dict().items()})
        return {"bleu": next(given), "loss": 0.0}

    chosen = settings(steps=99, validate_every=2, patience=3, monitor="bleu", better=better)
    results = train_tiny(tmp_path, build(), chosen, validate=validate)
    assert results["ended_by"] == "patience"
    assert results["steps"] == 2 * last
    assert (results["best"]["bleu"], results["best_step"]) == (3, 4)
    best = build(seed=9)
    load_weights(best, tmp_path / "model.safetensors")
    assert all(torch.equal(weights, kept[1][name]) for name, weights in best.state_dict().items())


def test_validation_is_without_dropout_gradients_or_traces(tmp_path):
    """B34: eval mode reaches every part; what validation draws does not change what training draws."""

    def prying(model):
        assert not any(part.training for part in model.modules())
        assert not torch.is_grad_enabled()
        random.seed(0)
        numpy.random.seed(0)
        torch.manual_seed(0)
        first, second = loss(model), loss(model)
        assert first == second
        return first

    def strict(model, batch):
        assert all(part.training for part in model.modules())
        return objective(model, batch)

    looked, alone = build(), build()
    train_tiny(tmp_path / "looked", looked, settings(validate_every=1), of=strict, validate=prying)
    train_tiny(tmp_path / "alone", alone, settings(validate_every=None), of=strict, validate=None)
    assert same_weights(looked, alone)
    last = build(seed=9)
    load_weights(last, tmp_path / "alone" / "model.safetensors")
    assert same_weights(last, alone), "without validation the last weights are the run's"


def test_the_seed_settles_dropout_whatever_was_drawn_before(tmp_path):
    one, _ = run_tiny(tmp_path / "1", steps=3)
    torch.rand(5)
    again, _ = run_tiny(tmp_path / "2", steps=3)
    other, _ = run_tiny(tmp_path / "3", steps=3, seed=6)
    assert same_weights(one, again)
    assert not same_weights(one, other)


def test_batches_without_tokens_change_nothing(tmp_path):
    """An objective over no tokens may be 0/0; weights, moments and numbers of the log stay finite and untouched."""

    def empty_is_nan(model, batch):
        outcome = objective(model, batch)
        return outcome if outcome.count else outcome._replace(total=outcome.total / 0)

    some = Sequences(empty=frozenset(Sequences().plan(0)[1]))
    kept: list[nn.Module] = []

    def validate(model):
        kept.append(build())
        kept[-1].load_state_dict(model.state_dict())
        return loss(model)

    train_tiny(tmp_path, build(), settings(steps=3, validate_every=1, log_every=1), some, empty_is_nan, validate)
    assert same_weights(kept[0], kept[1])
    assert not same_weights(kept[1], kept[2])
    lines = [line for line in RunFolder(tmp_path).read_metrics() if line["kind"] == "train"]
    assert [line["loss"] > 0 for line in lines] == [True, False, True]
    assert all(isinstance(value, float | int) for line in lines for name, value in line.items() if name != "kind")


def harmed(harm: str, at: int):
    """An objective whose loss, gradient or both go wrong at its at-th call."""
    calls = []

    def of(model: Tiny, batch) -> Outcome:
        calls.append(1)
        outcome = objective(model, batch)
        if len(calls) < at:
            return outcome
        if harm == "gradient":  # √0 is 0, but its slope is not finite
            return outcome._replace(total=outcome.total + (model.out.weight * 0).abs().sum().sqrt())
        return outcome._replace(total=outcome.total * float(harm))

    return of


@pytest.mark.parametrize("harm", ["nan", "inf", "gradient"])
def test_what_is_not_finite_is_named_by_step_and_never_saved(tmp_path, harm):
    model = build()
    with pytest.raises(Diverged, match=r"(loss|gradient) of step 5 \(epoch 0\) is (nan|inf)"):
        train_tiny(tmp_path, model, settings(accumulation=1), of=harmed(harm, at=5))
    assert all(weights.isfinite().all() for weights in model.state_dict().values())
    assert [path.name for path in checkpoints(tmp_path / "checkpoints")] == ["step-00000004", "step-00000003"]
    best, newest = build(seed=9), build(seed=9)
    load_weights(best, tmp_path / "model.safetensors")
    load_weights(newest, tmp_path / "checkpoints" / "step-00000004" / "model.safetensors")
    assert same_weights(best, newest)
    assert same_weights(newest, model), "the weights are those before the step"


def test_weights_that_an_update_made_infinite_are_not_saved(tmp_path):
    with pytest.raises(Diverged, match="after step 1 the weights .* are not finite"):
        train_tiny(tmp_path, build(), settings(learning_rate=3e38, warmup_steps=0, weight_decay=1e3))
    assert not (tmp_path / "model.safetensors").exists()
    assert checkpoints(tmp_path / "checkpoints") == []


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_says_how_to_go_on(tmp_path, number, code):
    """The folder's name, too, may be copied into a shell."""
    before, run = signal.getsignal(number), tmp_path / "my run; it's"
    with pytest.raises(Interrupted, match="after step 5; ") as stopped:
        run_tiny(run, signal_at=5, number=number, save_every=None, validate_every=None)
    assert shlex.split(str(stopped.value))[-4:] == ["regard", "train", "--resume", str(run)]
    assert stopped.value.exit_code == code
    assert [path.name for path in checkpoints(run / "checkpoints")] == ["step-00000005"]
    assert signal.getsignal(number) is before
    assert not (run / "results.json").exists()


def test_bf16_computes_in_bf16_and_keeps_fp32_weights(tmp_path):
    seen = set()

    def of(model, batch):
        seen.add(model.out(torch.zeros(1, 17)).dtype)
        return objective(model, batch)

    model = build(dropout=0)
    results = train_tiny(tmp_path, model, settings(precision="bf16", steps=30, learning_rate=0.03), of=of)
    assert seen == {torch.bfloat16}
    assert {weights.dtype for weights in model.state_dict().values()} == {torch.float32}
    assert results["last"]["accuracy"] > 0.9


def test_a_reporter_of_ones_own_is_called(tmp_path):
    reported = []

    class Own(Silent):
        def update(self, step, done, left, numbers, line):
            reported.append((step, round(done, 3), left is not None, line, sorted(numbers)))

    run_tiny(tmp_path, steps=3, log_every=2, progress=Own())
    names = ["accuracy", "gradient_norm", "loss", "tokens_per_second"]
    assert reported == [(1, 0.333, True, False, names), (2, 0.667, True, True, names), (3, 1.0, True, True, names)]


def test_what_does_not_fit_is_refused_before_training(tmp_path):
    with pytest.raises(ConfigError, match="patience"):
        train_tiny(tmp_path, build(), settings(patience=3), validate=None)
    with pytest.raises(ConfigError, match="no parameter to train"):
        train_tiny(tmp_path, build().requires_grad_(False), settings())
    with pytest.raises(DataError, match="epoch 0 has no batches"):
        train_tiny(tmp_path, build(), settings(), Sequences(items=0))
    with pytest.raises(ConfigError, match="'losss'.*Did you mean 'loss'"):
        train_tiny(tmp_path, build(), settings(monitor="losss", save_every=None, validate_every=1))
    run_tiny(tmp_path, steps=2)
    with pytest.raises(RunError, match="holds a run already"):
        run_tiny(tmp_path, steps=2)
