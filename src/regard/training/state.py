"""The state of a run: all that changes from step to step besides tensors and generators, as plain JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any, Protocol, TypeVar, runtime_checkable

from regard.errors import DataError

Batch = TypeVar("Batch", covariant=True)


@runtime_checkable
class Batches(Protocol[Batch]):
    """The batches of a training set. Both methods must depend on their arguments alone, or no run could be resumed."""

    def plan(self, epoch: int) -> Sequence[list[int]]:
        """The epoch's batches in order, each a list of item numbers."""
        ...

    def load(self, indices: list[int]) -> Batch:
        """The batch of these items (never none of them), with a method `to(device)`."""
        ...


@dataclass
class Sums:
    """Sums over a number of updates."""

    loss: float = 0.0
    tokens: float = 0.0
    correct: float = 0.0
    norm: float = 0.0
    steps: int = 0
    seconds: float = 0.0
    processor_seconds: float = 0.0

    def add(self, other: "Sums") -> None:
        """Add the sums of further updates."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def summary(self) -> dict[str, float]:
        """Mean loss per token in nats, the part of tokens that were right, and the mean gradient norm."""
        tokens = max(1.0, self.tokens)
        return {
            "loss": self.loss / tokens,
            "accuracy": self.correct / tokens,
            "gradient_norm": self.norm / max(1, self.steps),
            "tokens_per_second": self.tokens / self.seconds if self.seconds else 0.0,
        }


@dataclass
class TrainingState:
    """The state of a run, with that of early stopping and of the log.

    Attributes:
        step: updates made.
        epoch, position: the next batch is number `position` of the plan of `epoch`.
        seconds: spent training, validation included, over all resumes.
        processor_seconds: the same in processor time, that of all threads of a process added.
        total: the sums over all updates; its seconds leave validation and saving out.
        interval: the same since the last line of the log.
        best: the best value of the monitored metric; `best_step` is where it was reached.
        waited: validations since the best one.
        metrics: of the last validation; `best_metrics` of the best.
    """

    step: int = 0
    epoch: int = 0
    position: int = 0
    seconds: float = 0.0
    processor_seconds: float = 0.0
    total: Sums = field(default_factory=Sums)
    interval: Sums = field(default_factory=Sums)
    best: float | None = None
    best_step: int | None = None
    best_metrics: dict[str, float] = field(default_factory=dict)
    waited: int = 0
    metrics: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The state as plain JSON, for a checkpoint."""
        return asdict(self)

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> "TrainingState":
        """The state that `to_json` gave."""
        return cls(**{**saved, "total": Sums(**saved["total"]), "interval": Sums(**saved["interval"])})

    def judge(self, value: float, better: str) -> bool:
        """Record a validation's value; true if it is the best so far. NaN never is."""
        if value != value:
            good = False
        elif self.best is None:
            good = True
        else:
            good = value < self.best if better == "min" else value > self.best
        if good:
            self.best, self.best_step, self.best_metrics, self.waited = value, self.step, dict(self.metrics), 0
        else:
            self.waited += 1
        return good


class BatchReader:
    """Takes batches in order. An update never joins batches of two epochs: an epoch's last one may be smaller."""

    def __init__(self, batches: Batches[Any], accumulation: int) -> None:
        self.batches = batches
        self.accumulation = accumulation
        self._epoch: int | None = None
        self._plan: Sequence[list[int]] = []

    def plan(self, epoch: int) -> Sequence[list[int]]:
        """The batches of an epoch, planned once while it lasts.

        Raises:
            DataError: the epoch has no batches.
        """
        if epoch != self._epoch:
            self._plan, self._epoch = self.batches.plan(epoch), epoch
            if not self._plan:
                raise DataError(f"epoch {epoch} has no batches: there is nothing to train on; give at least one item")
        return self._plan

    def steps(self, epoch: int) -> int:
        """Updates that the epoch's batches make."""
        return -(-len(self.plan(epoch)) // self.accumulation)

    def take(self, run_state: TrainingState) -> list[list[int]]:
        """The batches of the next update; the state moves past them."""
        plan = self.plan(run_state.epoch)
        taken = list(plan[run_state.position : run_state.position + self.accumulation])
        run_state.position += len(taken)
        if run_state.position >= len(plan):
            run_state.epoch, run_state.position = run_state.epoch + 1, 0
        return taken

    def digest(self, epoch: int) -> str:
        """A fingerprint of the epoch's plan, by which a resumed run knows that it has the same data and order."""
        found = sha256(b"[")
        for number, indices in enumerate(self.plan(epoch)):
            found.update(f"{', ' if number else ''}{list(indices)}".encode())
        found.update(b"]")
        return found.hexdigest()
