"""Sequences as a run needs them: those of training and those that are held out, drawn by number."""

from collections.abc import Callable
from pathlib import Path

from regard.data.algorithms.problem import problem
from regard.data.algorithms.sequences import SequenceBatch, Sequences
from regard.tasks.algorithms.settings import AlgorithmSettings
from regard.tasks.core.task import Nothing, Prepared

Drawn = Prepared[Nothing, SequenceBatch, list[SequenceBatch]]
"""The sequences of a run: those of training and those held out, both of the lengths of training."""


def draw_sequences(settings: AlgorithmSettings, folder: Path | None, say: Callable[[str], None]) -> Drawn:
    """The sequences that a run trains on, and those that it holds out; nothing is read, saved or reported."""
    made = problem(settings.data)
    held_out = Sequences(made, settings.data, settings.seed, "validation").held_out(settings.data.validation)
    return Prepared(Nothing(), Sequences(made, settings.data, settings.seed, "training"), held_out)
