"""Whether a call may take a path with a hand-written backward, which knows nothing but plain backward passes."""

from typing import Any

import torch
from torch import Tensor

_TRACERS = tuple(torch._C._TorchDispatchModeKey.__members__[name] for name in ("FAKE", "PROXY", "FUNCTIONAL"))


def is_plain_tensor(tensor: Tensor) -> bool:
    """Whether the tensor's numbers are there and may be read and written without torch.

    They aren't in a class that torch hands its operations to (fake tensors and other wrappers), and who traces torch's
    operations does not notice reads and writes that bypass it.
    """
    if type(tensor).__torch_dispatch__ is not Tensor.__torch_dispatch__:
        return False
    if torch._C._get_tracing_state() is not None:  # torch.jit.trace
        return False
    modes = torch._C._len_torch_dispatch_stack()
    return not modes or all(torch._C._get_dispatch_mode(tracer) is None for tracer in _TRACERS)


def is_readable(tensor: Tensor) -> bool:
    """Whether the tensor's numbers may decide something now: they are there, and nothing is traced or mapped."""
    traced = torch.compiler.is_compiling() or torch._C._functorch.peek_interpreter_stack() is not None
    return not traced and not tensor.is_meta and is_plain_tensor(tensor)


def are_materialized(*tensors: Tensor | None) -> bool:
    """Whether what comes back to a function may be read where it lies, in the order of its steps.

    Gradients may come many at once, or as others' classes, where the call itself was a plain one.
    """
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return False
    return all(
        one is None
        or (is_plain_tensor(one) and not one.is_neg() and not torch._C._functorch.is_legacy_batchedtensor(one))
        for one in tensors
    )


def materialized(what: str, *upstream: Tensor | None) -> tuple[Any, ...]:
    """What comes back to a function, as numbers that loops read where they lie. Batches are taken apart before.

    Args:
        what: the function in words.
        *upstream: what comes back to its outputs; None stays None.

    Raises:
        RuntimeError: it is of a class whose numbers lie elsewhere, or is traced.
    """
    upstream = tuple(one if one is None else one.resolve_neg() for one in upstream)
    if not are_materialized(*upstream):
        kinds = ", ".join(sorted({type(one).__name__ for one in upstream if one is not None}))
        raise RuntimeError(
            f"{what} takes gradients that are plain tensors, and traces none; these came as {kinds}: ask for the "
            "gradients of each plain tensor within, outside of what traces"
        )
    return upstream


def are_alike(inputs: Tensor, *others: Tensor) -> bool:
    """Whether the others are numbers as the inputs' are, of their type and on their device, to be read without torch.

    Where they are not, it is torch's to join them or to refuse.
    """
    kind, device = inputs.dtype, inputs.device
    return all(
        one.dtype is kind and one.device == device and is_plain_tensor(one) and not one.is_neg() for one in others
    )


def is_plain(inputs: Tensor) -> bool:
    """Whether a call is neither traced, nor mapped, nor narrowed by autocast, nor differentiated in forward mode.

    Args:
        inputs: one of what the call is given; it says on which device.
    """
    # Without content it is judged as if on a CPU.
    device = "cpu" if inputs.is_cpu or inputs.is_meta else inputs.device.type
    return (
        not torch.is_autocast_enabled(device)
        and not torch.compiler.is_compiling()
        and torch._C._functorch.peek_interpreter_stack() is None
        and torch.autograd.forward_ad._current_level < 0
        and is_plain_tensor(inputs)
        and not inputs.is_neg()  # a view whose numbers are negated when torch reads them
    )
