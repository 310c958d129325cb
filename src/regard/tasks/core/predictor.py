"""A trained model with all that using it needs: loaded from a run folder, and run over items in their order."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, runtime_checkable

import torch
from torch import nn

from regard.decoding.batches import in_order
from regard.tasks.core.config import check
from regard.tasks.core.runs import open_run
from regard.tasks.core.settings import RunSettings
from regard.training.run.checkpoint import load_weights


@runtime_checkable
class Evaluable(Protocol):
    """What every model must provide: one module, or several that decode together."""

    def eval(self) -> Any:
        """Go into eval mode."""
        ...

    def parameters(self) -> Iterator[nn.Parameter]:
        """All of them; the device is the first one's."""
        ...


Settings = TypeVar("Settings", bound=RunSettings)
Parts = TypeVar("Parts")
Model = TypeVar("Model", bound=Evaluable)
Given = TypeVar("Given")
Item = TypeVar("Item")
Answer = TypeVar("Answer")
Owner = TypeVar("Owner", bound="Predictor[Any, Any, Any]")


class Predictor(ABC, Generic[Settings, Parts, Model]):
    """A trained model, its parts and its settings; what `regard.load` returns.

    A task's subclass, in its `predictor.py`, names its `settings_type` and writes `load_parts` and `build`.

    Args:
        model: in eval mode from here on, but where training validates it and puts its mode back.
        parts: what the model needs besides its weights, such as tokenizers.
        settings: those of its run.
    """

    settings_type: type[Settings]

    def __init__(self, model: Model, parts: Parts, settings: Settings) -> None:
        model.eval()
        self.model, self.parts, self.settings = model, parts, settings

    @classmethod
    def load(cls: type[Owner], folder: str | Path) -> Owner:
        """The trained model of a run folder, with its best weights.

        Raises:
            RunError: there is no run, or it lacks its parts or weights, or they are damaged.
            ConfigError: the run's settings cannot be used.
        """
        run = open_run(folder)
        settings = check(cls.settings_type, run.read_config())
        parts = cls.load_parts(run.tokenizers)
        model: Any = cls.build(settings, parts)
        load_weights(model, run.weights)
        return cls(model, parts, settings)

    @classmethod
    @abstractmethod
    def load_parts(cls, folder: Path) -> Parts:
        """The parts that training saved in a folder."""

    @classmethod
    @abstractmethod
    def build(cls, settings: Settings, parts: Parts) -> Model:
        """The model that the settings describe, with fresh weights; training begins with it too."""

    @property
    def device(self) -> torch.device:
        """Where the model's parameters are."""
        return next(self.model.parameters()).device


class StreamPredictor(Predictor[Settings, Parts, Model], Generic[Settings, Parts, Model, Given, Item, Answer]):
    """A predictor that returns one answer per item, such as a line of text, in batches of items of like length.

    A subclass writes `read`, `length`, `answer` and `blank`. Where its answers have options, its `stream` takes them
    and gives them to `answer`.
    """

    @abstractmethod
    def read(self, given: Given, line: int = 1) -> Item:
        """One item as the model reads it.

        Args:
            given: as it came, e.g. a line of text.
            line: its number, from 1.
        """

    @abstractmethod
    def length(self, item: Item) -> int:
        """By which items are batched; 0 for an item that the model cannot read, whose answer is blank."""

    @abstractmethod
    def answer(self, items: list[Item]) -> Sequence[Answer]:
        """One answer for each item of a batch."""

    @abstractmethod
    def blank(self, item: Item) -> Answer:
        """The answer for an item of length 0."""

    def stream(
        self, items: Iterable[Given], *, batch: int = 64, chunk: int | None = None, first: int = 1
    ) -> Iterator[Answer]:
        """One answer per item, in order, while the items are being read: 16 batches at a time are in memory.

        Args:
            items: as they come, e.g. lines of text without line breaks.
            batch: items computed together; changes a number by no more than float32 rounds.
            chunk: items read before the first answer comes, 16 batches by default.
            first: the number of the first item, where earlier ones are done.

        Raises:
            DataError: an item cannot be read, such as a text that is not valid Unicode.
        """
        yield from self.in_batches(self.read_all(items, first), self.answer, batch, chunk)

    def read_all(self, items: Iterable[Given], first: int = 1) -> Iterator[Item]:
        """Every item as the model reads it, numbered from the first."""
        return (self.read(item, line) for line, item in enumerate(items, start=first))

    def in_batches(
        self, items: Iterable[Item], answer: Callable[[list[Item]], Sequence[Answer]], batch: int, chunk: int | None
    ) -> Iterator[Answer]:
        """One answer per item that was read already, in order; see `stream`."""
        return in_order(items, self.length, batch, answer, empty=self.blank, chunk=chunk)


Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def inference(
    method: Callable[Concatenate[Owner, Arguments], Result],
) -> Callable[Concatenate[Owner, Arguments], Result]:
    """Decorator of a predictor's method: the model is in eval mode and no gradients are kept."""

    @wraps(method)
    def run(self: Owner, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        self.model.eval()
        with torch.no_grad():
            return method(self, *args, **kwargs)

    return run
