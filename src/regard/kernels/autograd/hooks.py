"""Whether a layer may be computed from its weights, without a call of it."""

import functools
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn


class RecordingHook:
    """A forward hook that records attentions and changes nothing; of a module that returns none it records nothing.

    Args:
        note: called with what the module returned.
    """

    def __init__(self, note: Callable[[Any], None]) -> None:
        self._note = note

    def __call__(self, module: nn.Module, given: Any, result: Any) -> None:
        """Called by torch after the module's forward; it returns None, so the result stays as it is."""
        self._note(result)


def is_hooked(*modules: object, recording: bool = False) -> bool:
    """Whether these modules have hooks, or a `forward` of their own, so that they have to be called.

    An object that is no module has no hooks. This is done at each call, and so reads a module's dictionaries without
    going through the module.

    Args:
        *modules: that would not be called.
        recording: whether a `RecordingHook` counts as well, as it does where a module gives an attention.
    """
    if nn.modules.module._has_any_global_hook():
        return True
    for module in modules:
        if isinstance(module, nn.Module):
            own = vars(module)
            if own["_forward_pre_hooks"] or own["_backward_hooks"] or own["_backward_pre_hooks"] or "forward" in own:
                return True
            hooks = own["_forward_hooks"]
            if hooks and (recording or any(type(hook) is not RecordingHook for hook in hooks.values())):
                return True
    return False


def is_exactly(module: Any, *kinds: type[nn.Module]) -> bool:
    """Whether the module is of one of these classes and of no subclass, with no method of its own.

    The one rule for fast code: it takes the modules whose work it knows; any other is called, right and slower.

    Args:
        module: that would not be called.
        *kinds: whose work is known.
    """
    kind: Any = type(module)
    return kind in kinds and not (vars(module).keys() & _methods(kind))


@functools.cache
def _methods(kind: type) -> frozenset[str]:
    """The names of a class's methods and properties, without those of every module."""
    each = {name: getattr(kind, name) for name in dir(kind) if name == "forward" or not hasattr(nn.Module, name)}
    return frozenset(name for name, one in each.items() if callable(one) or isinstance(one, property))


def overrides(module: nn.Module, kind: type[nn.Module], method: str) -> bool:
    """Whether a subclass, or the module itself, has its own method in the place of the class's.

    It is asked where two methods are made of each other, and that which was overridden has the say.
    """
    return method in vars(module) or getattr(type(module), method) is not getattr(kind, method)


def weights_of(layer: nn.Module, kind: type[nn.Module], *names: str) -> tuple[Tensor, ...] | None:
    """The weights that a call of the layer would compute from; None where it has to be called.

    That is so where it has hooks, where it is not exactly of its class, and where it does not hold the weights
    themselves: what makes one of others may make another at each call, as a spectral norm does.

    Args:
        layer: that would not be called.
        kind: the class whose work is known.
        *names: of the weights; all of them have to be there.
    """
    if is_hooked(layer) or not is_exactly(layer, kind):
        return None
    held = vars(layer)["_parameters"]
    weights = tuple(held.get(name) for name in names)
    return None if any(weight is None for weight in weights) else weights
