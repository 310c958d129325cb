"""The training loop: update, write down, validate, save; stop at a bound, when nothing improves, or on a signal."""

import contextlib
import shlex
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from regard.errors import ConfigError, RunError, nearest
from regard.training.interrupt import Interrupted, SignalWatch
from regard.training.optimizer import make_optimizer
from regard.training.peak_memory import peak_memory
from regard.training.processes.processes import Processes
from regard.training.processes.sharding import Shards
from regard.training.progress import Reporter, reporter
from regard.training.randomness import seed_everything, undisturbed
from regard.training.run.checkpoint import checkpoints
from regard.training.run.checkpointer import Checkpointer
from regard.training.run.log import Log
from regard.training.run.run import RunFolder
from regard.training.schedule import learning_rate
from regard.training.settings import TrainingSettings
from regard.training.state import Batches, BatchReader, Sums, TrainingState
from regard.training.update import Objective, Updater

Validate = Callable[[nn.Module], dict[str, float]]


def train(
    run: RunFolder,
    model: nn.Module,
    objective: Callable[[nn.Module, Any], Objective],
    batches: Batches[Any],
    validate: Validate | None,
    settings: TrainingSettings,
    seed: int = 0,
    *,
    progress: str | Reporter = "auto",
    resume: bool = False,
) -> dict[str, Any]:
    """Train a model, so that it can be killed at any moment and resumed to the same weights, bit for bit.

    The promise of bits holds on one machine, with one number of threads and processes, on the CPU, for runs bound by
    steps or epochs; one bound by minutes of either kind resumes with the time it has spent. Under `torchrun` each
    process takes every n-th row of every batch, and the sums are those of one process. With `settings.shard` each holds
    a part of the weights besides, and keeps the shape of its part afterwards; the checkpoints are in parts, too, and
    any number of processes can continue from them.

    Args:
        run: the folder that is written to.
        model: is moved to the device, and has the last weights afterwards; the best are in `model.safetensors`.
        objective: `(model, batch) -> Objective(total, count, correct)`: sums, never means. `settings.smoothing` is for
            the caller who makes it.
        batches: the data, see `Batches`.
        validate: `(model) -> metrics` by name; is called on the first process alone, in eval mode, without gradients,
            and leaves the random generators as they were. With None, `model.safetensors` holds the last weights.
        settings: see `TrainingSettings`.
        seed: of dropout and everything else that is drawn while training. The weights are the caller's: seed before
            making them, or a run killed before its first checkpoint starts over from other ones.
        progress: auto, live, lines, silent, or a reporter.
        resume: continue from the newest whole checkpoint. Options that differ from the saved ones are refused, but for
            the bounds, patience, keep, save_every and log_every, whose changes are reported.

    Returns:
        The results, as in the run's `results.json`.

    Raises:
        Interrupted: Ctrl-C or SIGTERM came; the state is saved.
        Diverged: a loss, gradient or weight is not finite.
        RunError: the run has checkpoints and is not to be resumed, or cannot be.
        ConfigError: the settings do not fit the run or its metrics.
    """
    processes = Processes()
    if not resume and checkpoints(run.checkpoints):
        raise RunError(f"{run.path} holds a run already; resume it, or name another folder")
    if validate is None and settings.patience is not None:
        raise ConfigError("patience waits for a better validation, but there is none; leave patience out")
    seed_everything(seed, processes.rank)
    model.to(processes.device).train()
    processes.copy_from_first(model)
    shards = Shards(model, processes) if settings.shard and processes.count > 1 else None
    optimizer = make_optimizer(model, settings)
    reader = BatchReader(batches, settings.accumulation)
    reporting = progress if not isinstance(progress, str) else reporter(progress)
    if not processes.first:
        reporting = reporter("silent")
    checkpointer = Checkpointer(run, model, optimizer, reader, processes, settings, seed, reporting.say, shards)
    run_state = checkpointer.restore() if resume else TrainingState()
    bounds = Bounds(settings, reader.steps(0))
    updater = Updater(model, objective, optimizer, batches, processes, settings, sharded=shards is not None)

    with contextlib.ExitStack() as stack:
        watch = stack.enter_context(SignalWatch())
        log = stack.enter_context(contextlib.closing(Log(run, run_state.step))) if processes.first else None
        stack.enter_context(reporting)
        if processes.first:
            run.results.unlink(missing_ok=True)  # those of a run that now continues
        clock = clocks()

        def validate_and_save() -> None:
            """Validate, keep the weights if they are the best, and save the state."""
            best = True
            if validate is not None:
                whole = model if shards is None else shards.gather()
                run_state.metrics = processes.broadcast(_metrics(validate, whole, processes))
                best = run_state.judge(_monitored(run_state.metrics, settings.monitor), settings.better)
                reporting.validated(run_state.step, run_state.metrics, best)
                if log:
                    log.write("validation", run_state.step, {"epoch": run_state.epoch, **run_state.metrics})
            if best:
                checkpointer.save_best(run_state)
            save()

        def save() -> None:
            if log:
                log.sync()
            checkpointer.save(run_state)

        def write_down(rate: float) -> None:
            if log:
                numbers = {**run_state.interval.summary(), "learning_rate": rate}
                log.write("train", run_state.step, {"epoch": run_state.epoch, **numbers})
            run_state.interval = Sums()

        while (ended := bounds.ended(run_state)) is None:
            rate = learning_rate(settings, run_state.step, bounds.done(run_state))
            sums = updater.update(reader.take(run_state), rate, f"step {run_state.step + 1} (epoch {run_state.epoch})")
            run_state.step += 1
            run_state.total.add(sums)
            run_state.interval.add(sums)
            now = clocks()
            spent = (run_state.seconds + now[0] - clock[0], run_state.processor_seconds + now[1] - clock[1])
            (run_state.seconds, run_state.processor_seconds), received = _agree(processes, spent, watch.received)
            clock = now

            last = bounds.ended(run_state) is not None
            line = last or run_state.step % settings.log_every == 0
            done = bounds.done(run_state)
            left = run_state.seconds * (1 - done) / done if done else None
            reporting.update(run_state.step, done, left, run_state.interval.summary(), line)
            if line:
                write_down(rate)
            if last or _due(run_state, settings):
                validate_and_save()
            elif settings.save_every and run_state.step % settings.save_every == 0:
                save()
            if received:
                save()
                again = f"regard train --resume {shlex.quote(str(run.path))}"
                raise Interrupted(
                    f"Stopped after step {run_state.step}; its state is saved. To continue: {again}", received
                )

        results = _results(run_state, ended, model, settings, seed, processes)
        if processes.first:
            run.write_results(results)
        processes.wait()
        return results


class Bounds:
    """When a run ends, and how much of it is done.

    Args:
        settings: `steps`, `epochs`, `minutes`, `processor_minutes` and `patience`.
        steps: updates in the first epoch, by which a run bound by epochs is measured until it ends.
    """

    def __init__(self, settings: TrainingSettings, steps: int) -> None:
        self.settings = settings
        self.steps = steps

    def done(self, run_state: TrainingState) -> float:
        """The part of the run that is done, 0 to 1: by the bound that is nearest."""
        settings = self.settings
        parts = [
            run_state.step / settings.steps if settings.steps else 0.0,
            run_state.step / (settings.epochs * self.steps) if settings.epochs else 0.0,
            run_state.seconds / (60 * settings.minutes) if settings.minutes else 0.0,
            run_state.processor_seconds / (60 * settings.processor_minutes) if settings.processor_minutes else 0.0,
        ]
        return min(1.0, max(parts))

    def ended(self, run_state: TrainingState) -> str | None:
        """The name of the bound that is reached, or None."""
        settings = self.settings
        reached = {
            "patience": settings.patience is not None and run_state.waited >= settings.patience,
            "steps": settings.steps is not None and run_state.step >= settings.steps,
            "epochs": settings.epochs is not None and run_state.epoch >= settings.epochs,
            "minutes": settings.minutes is not None and run_state.seconds >= 60 * settings.minutes,
            "processor_minutes": settings.processor_minutes is not None
            and run_state.processor_seconds >= 60 * settings.processor_minutes,
        }
        return next((name for name, is_reached in reached.items() if is_reached), None)


def _due(run_state: TrainingState, settings: TrainingSettings) -> bool:
    if settings.validate_every is None:
        return run_state.position == 0  # an epoch has just ended
    return run_state.step % settings.validate_every == 0


def _metrics(validate: Validate, model: nn.Module | None, processes: Processes) -> dict[str, float] | None:
    if model is None or not processes.first:
        return None
    model.eval()
    try:
        with torch.no_grad(), undisturbed(processes.device):
            return {name: float(value) for name, value in validate(model).items()}
    finally:
        model.train()


def _monitored(metrics: dict[str, float], name: str) -> float:
    if name not in metrics:
        raise ConfigError(f"monitor: validation gives no metric named {name!r}.{nearest(name, metrics)}")
    return metrics[name]


def clocks() -> tuple[float, float]:
    """Wall-clock time and the processor time of this process, in seconds."""
    return time.monotonic(), time.process_time()


def _agree(processes: Processes, spent: tuple[float, float], received: int) -> tuple[tuple[float, float], int]:
    """The first process's clocks, and a signal that any process received: all must end after the same step."""
    if processes.count == 1:
        return spent, received
    mine = torch.zeros(3, processes.count, dtype=torch.float64, device=processes.device)
    mine[:, processes.rank] = torch.tensor([*spent, received], dtype=torch.float64)
    seconds, processor, signals = processes.sum(mine).tolist()
    return (seconds[0], processor[0]), int(max(signals))


def _results(
    run_state: TrainingState, ended: str, model: nn.Module, settings: TrainingSettings, seed: int, processes: Processes
) -> dict[str, Any]:
    tokens = run_state.total.tokens
    return {
        "ended_by": ended,
        "steps": run_state.step,
        "epochs": run_state.epoch,
        "tokens": int(tokens),
        "seconds": run_state.seconds,
        "processor_seconds": run_state.processor_seconds,
        "tokens_per_second": tokens / run_state.total.seconds if run_state.total.seconds else 0.0,
        "tokens_per_processor_second": tokens / processor if (processor := run_state.total.processor_seconds) else 0.0,
        "peak_memory_bytes": peak_memory(processes.device),
        "best_step": run_state.best_step,
        "best": run_state.best_metrics,
        "last": run_state.metrics,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "seed": seed,
        "precision": settings.precision,
        "device": processes.device.type,
        "processes": processes.count,
        "threads": torch.get_num_threads(),
    }
