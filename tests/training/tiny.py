"""A tiny task to train on: the next symbol of made-up sequences, by a GRU with dropout. Also a program, to be killed.

python -m tests.training.tiny RUN '{"steps": 12}' '{"resume": true}'
"""

import itertools
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

os.environ["ACCELERATE_USE_CPU"] = "true"  # bits are promised on CPUs

import numpy  # noqa: E402
import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402

SYMBOLS, ITEMS, ROWS = 13, 29, 5  # six batches an epoch, the last of four rows


class Outcome(NamedTuple):
    total: Tensor
    count: Tensor
    correct: Tensor


class Batch(NamedTuple):
    inputs: Tensor
    targets: Tensor
    keep: Tensor

    def to(self, device: torch.device) -> "Batch":
        return Batch(*(tensor.to(device) for tensor in self))


class Sequences:
    """Walks x → 3x + 1 (mod 13) of unequal lengths; those numbered in `empty` have no tokens at all."""

    def __init__(self, items: int = ITEMS, rows: int = ROWS, empty: frozenset[int] = frozenset()) -> None:
        self.items, self.rows, self.empty = items, rows, empty

    def plan(self, epoch: int) -> list[list[int]]:
        order = numpy.random.default_rng([7, epoch]).permutation(self.items).tolist()
        return [order[start : start + self.rows] for start in range(0, self.items, self.rows)]

    def load(self, indices: list[int]) -> Batch:
        assert indices, "no process may ask for a batch of nothing"
        lengths = [0 if index in self.empty else 2 + index % 6 for index in indices]
        inputs = torch.zeros(len(indices), 8, dtype=torch.int64)
        targets, keep = inputs.clone(), torch.zeros(len(indices), 8, dtype=torch.bool)
        for row, (index, length) in enumerate(zip(indices, lengths, strict=True)):
            symbol = index % SYMBOLS
            for run_state in range(length):
                inputs[row, run_state], symbol = symbol, (3 * symbol + 1) % SYMBOLS
                targets[row, run_state], keep[row, run_state] = symbol, True
        return Batch(inputs, targets, keep)


class Tiny(nn.Module):
    def __init__(self, dropout: float = 0.3, unused: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, 11)
        self.gru = nn.GRU(11, 17, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(17, 11)
        self.unused = nn.Linear(3, unused)  # as some parameters of real models are, in some updates
        self.vocabulary = nn.Linear(11, SYMBOLS)
        self.vocabulary.weight = self.embedding.weight  # tied

    def forward(self, inputs: Tensor) -> Tensor:
        states, _ = self.gru(self.dropout(self.embedding(inputs)))
        return self.vocabulary(self.dropout(self.out(states)))


def objective(model: nn.Module, batch: Batch) -> Outcome:
    logits, targets = model(batch.inputs)[batch.keep], batch.targets[batch.keep]
    total = nn.functional.cross_entropy(logits, targets, reduction="sum")
    return Outcome(total, torch.tensor(len(targets)), (logits.argmax(-1) == targets).sum())


def drawing_objective(model: nn.Module, batch: Batch) -> Outcome:
    """Draws from Python's and numpy's generators too, so that a resumed run needs all three."""
    outcome = objective(model, batch)
    return outcome._replace(total=outcome.total * (0.5 + random.random()) * (0.5 + numpy.random.rand()))


def loss(model: nn.Module) -> dict[str, float]:
    outcome = objective(model, Sequences().load(list(range(ITEMS))))
    return {"loss": (outcome.total / outcome.count).item(), "accuracy": (outcome.correct / outcome.count).item()}


def build(seed: int = 3, dropout: float = 0.3, unused: int = 2) -> Tiny:
    torch.manual_seed(seed)
    return Tiny(dropout, unused)


def settings(**changes: Any):
    from regard.training.settings import TrainingSettings

    plain = {
        "steps": 14,
        "learning_rate": 0.02,
        "warmup_steps": 3,
        "save_every": 1,
        "validate_every": 4,
        "log_every": 3,
    }
    return TrainingSettings(**{**plain, **changes})


def run_tiny(
    path: Path,
    dropout: float = 0.3,
    pause: float = 0.0,
    seed: int = 5,
    resume: bool = False,
    batches: Any = None,
    signal_at: int | None = None,
    number: int = signal.SIGINT,
    progress: Any = "silent",
    unused: int = 2,
    **changes: Any,
):
    """Train the tiny model; returns it and the results.

    Args:
        pause: seconds that each batch takes longer.
        signal_at: the call of the objective (from 1) in which this program gets the signal `number`.
    """
    from regard.training.loop import train
    from regard.training.run.run import RunFolder

    calls = itertools.count(1)

    def watched(model: nn.Module, batch: Batch) -> Outcome:
        time.sleep(pause)
        if next(calls) == signal_at:
            os.kill(os.getpid(), number)
        return drawing_objective(model, batch) if dropout else objective(model, batch)

    model, chosen = build(dropout=dropout, unused=unused), settings(**changes)
    run, data = RunFolder(path), batches or Sequences()
    results = train(run, model, watched, data, loss, chosen, seed, progress=progress, resume=resume)
    return model, results


def same_weights(one: nn.Module, other: nn.Module) -> bool:
    """Whether two models are equal bit for bit."""
    pairs = zip(one.state_dict().items(), other.state_dict().items(), strict=True)
    return all(name == other_name and torch.equal(a, b) for (name, a), (other_name, b) in pairs)


def timeless(path: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics, without how fast it was."""
    from regard.training.run.run import RunFolder

    lines = RunFolder(path).read_metrics()
    return [{name: value for name, value in line.items() if name != "tokens_per_second"} for line in lines]


if __name__ == "__main__":
    torch.set_num_threads(1)
    path, changes, options = Path(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3])
    options["batches"] = Sequences(items=options.pop("items", ITEMS))
    from regard.errors import RegardError

    try:
        run_tiny(path, **options, **changes)
    except RegardError as error:
        print(error, file=sys.stderr)
        sys.exit(getattr(error, "exit_code", 1))
