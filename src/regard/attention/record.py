"""Record: what every attention of a model did during a call, without touching the call.

What records is a forward hook on each module. The hooks are removed after the `with`, also when its body raises, and
no number changes while they are there.
"""

import fnmatch
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.attended import Attended
from regard.errors import RegardError, nearest
from regard.kernels.autograd.hooks import RecordingHook

Select = str | Iterable[str] | Callable[[str, nn.Module], bool]


class RecordError(RegardError, KeyError):
    """A name that was not recorded."""

    def __str__(self) -> str:
        return str(self.args[0])


class Record:
    """What was recorded: `record[name]` lists the Attended of the module of that name, in call order."""

    def __init__(self, watched: list[str]) -> None:
        self._calls: dict[str, list[Attended]] = {name: [] for name in watched}

    def __getitem__(self, name: str) -> list[Attended]:
        """The attentions of a module, in call order.

        Raises:
            RecordError: a name that was not recorded, or a module that gave none.
        """
        calls = self._calls.get(name)
        if calls:
            return calls
        if calls is None:
            raise RecordError(f"no module named {name!r} was watched.{nearest(name, self._calls)}")
        others = nearest(name, self.names()) if self.names() else " Nor did any other."
        raise RecordError(f"{name!r} never gave an Attended while it was recorded.{others}")

    def names(self) -> list[str]:
        """The modules that returned an Attended, in the model's order."""
        return [name for name, calls in self._calls.items() if calls]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def weights(self, name: str) -> Float[Tensor, "batch *heads queries keys"]:
        """The weights of all calls of a module, recurrent steps stacked along the queries.

        Raises:
            RecordError: calls whose weights cannot be stacked; a name that was not recorded.
        """
        each = [attended.weights for attended in self[name]]
        shapes = {tuple(weights.shape[:-2]) + tuple(weights.shape[-1:]) for weights in each}
        if len(shapes) > 1:
            raise RecordError(
                f"the {len(each)} calls of {name!r} have weights of different shapes {[tuple(w.shape) for w in each]} "
                f"and cannot be stacked; read record[{name!r}] one by one"
            )
        return torch.cat(each, dim=-2)

    def _add(self, name: str, attended: Attended) -> None:
        self._calls[name].append(attended)


@contextmanager
def record(model: nn.Module, select: Select | None = None) -> Iterator[Record]:
    """Record every attention of a model.

    Within `with record(model) as recorded: model(…)`; afterwards `recorded[name]` and `recorded.weights(name)`.

    Args:
        model: any module; each submodule that returns an Attended is recorded under its dotted name ("" for itself).
        select: a name, a pattern ("decoder.*"), several of them, or a function of (name, module); None takes all.

    Raises:
        RecordError: at the start if a name or pattern fits no module; on access if it never fired.
    """
    modules = dict(model.named_modules(remove_duplicate=False))
    # A module used in two places has two names; where none was selected, the first will do.
    searched = dict(model.named_modules()) if select is None else modules
    watched = [name for name, module in searched.items() if _selected(select, name, module)]
    for pattern in _patterns(select):
        if not any(fnmatch.fnmatchcase(name, pattern) for name in modules):
            raise RecordError(f"no module fits {pattern!r}.{nearest(pattern, (name for name in modules if name))}")
    recorded = Record(watched)
    handles: list[Any] = []
    try:
        for name in watched:
            # A `RecordingHook` does not keep a module that returns no Attended from its fast paths.
            handles.append(modules[name].register_forward_hook(RecordingHook(partial(_note, recorded, name))))
        yield recorded
    finally:
        for handle in handles:
            handle.remove()


def _note(recorded: Record, name: str, result: Any) -> None:
    if isinstance(result, Attended):
        recorded._add(name, result)


def _patterns(select: Select | None) -> list[str]:
    if select is None or callable(select):
        return []
    return [select] if isinstance(select, str) else list(select)


def _selected(select: Select | None, name: str, module: nn.Module) -> bool:
    if select is None:
        return True
    if callable(select):
        return select(name, module)
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in _patterns(select))
