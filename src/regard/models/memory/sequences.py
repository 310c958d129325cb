"""The models of sequences by kind; each is imported at its first use."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import ConfigError, ShapeError, nearest
from regard.layers.sequence import SequenceModel

KINDS: dict[str, tuple[str, str]] = {
    "lstm": ("regard.models.memory.lstm", "LSTMSequence"),
    "fixed": ("regard.models.memory.fixed", "FixedContext"),
    "key_value": ("regard.models.memory.key_value", "KeyValue"),
    "dnc": ("regard.models.memory.dnc", "DifferentiableNeuralComputer"),
    "lstmn": ("regard.models.memory.lstmn", "LSTMN"),
    "ntm": ("regard.models.memory.ntm", "NeuralTuringMachine"),
    "transformer": ("regard.models.transformer.sequence", "TransformerSequence"),
}
"""Module and class of each kind: `Class(settings, inputs, outputs)`."""


def build(settings: Any, inputs: int, outputs: int) -> SequenceModel:
    """The model that the settings say, with fresh weights.

    Args:
        settings: those of one kind, e.g. `LSTMSettings`; `settings.kind` says which.
        inputs: width of what it reads at each step.
        outputs: width of what it gives at each step.

    Raises:
        ConfigError: an unknown kind.
    """
    if settings.kind not in KINDS:
        raise ConfigError(f"no model of sequences is named {settings.kind!r}.{nearest(settings.kind, KINDS)}")
    module, name = KINDS[settings.kind]
    model: SequenceModel = getattr(import_module(module), name)(settings, inputs, outputs)
    return model


def check_step(inputs: Tensor, width: int, batch: int) -> None:
    """Refuse inputs that a step cannot read.

    Args:
        inputs: of one step.
        width: of the inputs that the model was made for.
        batch: rows of the state that the step continues.

    Raises:
        ShapeError: they are not `(batch, inputs)`, of another width, or of another number of rows than the state.
    """
    _check(inputs, ("batch", "inputs"), width)
    if inputs.shape[0] != batch:
        raise ShapeError(
            f"the inputs have {inputs.shape[0]} rows, as {tuple(inputs.shape)}, and the state has {batch}; "
            f"give as many of both: start({inputs.shape[0]}) begins for these inputs"
        )


def check_sequences(inputs: Tensor, width: int) -> None:
    """Refuse inputs that are no whole sequences of the width that the model was made for.

    Raises:
        ShapeError: they are not `(batch, time, inputs)`, or of another width.
    """
    _check(inputs, ("batch", "time", "inputs"), width)


def by_steps(
    step: Callable[[Any, Tensor], tuple[Any, ...]], state: Any, inputs: Tensor, width: int
) -> tuple[Float[Tensor, "batch time width"], Any]:
    """The outputs of all steps of a sequence, one after the other, and the state after them.

    Args:
        step: gives output, state and attention, as a `StepOutput` does.
        state: before the first step.
        inputs: `(batch, time, inputs)`.
        width: of the outputs.
    """
    outputs = []
    for now in inputs.unbind(1):
        output, state, _ = step(state, now)
        outputs.append(output)
    return torch.stack(outputs, 1) if outputs else inputs.new_zeros(*inputs.shape[:2], width), state


def _check(inputs: Tensor, form: tuple[str, ...], width: int) -> None:
    if inputs.ndim != len(form) or inputs.shape[-1] != width:
        raise ShapeError(
            f"the inputs have shape {tuple(inputs.shape)}; expected ({', '.join(form)}) and inputs={width}, the width "
            "that this model was made for. Give them so, or make a model of their width"
        )
