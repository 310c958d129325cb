"""Whether a layer may be computed from its weights, without a call of it."""

from collections.abc import Callable, Iterable
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


def is_unmodified(module: nn.Module, *kinds: type[nn.Module], methods: Iterable[str] = ("forward",)) -> bool:
    """Whether the module does what one of these classes does, hooks or not: a subclass may do something else.

    Args:
        module: that would not be called.
        *kinds: whose work is known.
        methods: by name, those that count, properties too.
    """
    own, made = vars(module), type(module)
    return any(
        all(name not in own and getattr(made, name, None) is getattr(kind, name) for name in methods) for kind in kinds
    )


def weights_of(
    layer: nn.Module, kind: type[nn.Module], *names: str, methods: Iterable[str] = ("forward",)
) -> tuple[Tensor, ...] | None:
    """The weights that a call of the layer would compute from; None where it has to be called.

    That is so where it has hooks, where it does something else than its class, and where it does not hold
    the weights themselves: what makes one of others may make another at each call, as a spectral norm does.

    Args:
        layer: that would not be called.
        kind: the class whose work is known.
        *names: of the weights; all of them have to be there.
        methods: as for `is_unmodified`.
    """
    if is_hooked(layer) or not is_unmodified(layer, kind, methods=methods):
        return None
    held = vars(layer)["_parameters"]
    weights = tuple(held.get(name) for name in names)
    return None if any(weight is None for weight in weights) else weights
