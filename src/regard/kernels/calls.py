"""Whether a call may take a path whose gradients are written out, which knows nothing but plain backward passes."""

import torch
from torch import Tensor


def is_plain(inputs: Tensor) -> bool:
    """Whether a call is neither traced, nor mapped, nor narrowed by autocast, nor differentiated in forward mode.

    Args:
        inputs: one of what the call is given; it says on which device.
    """
    return (
        not torch.is_autocast_enabled(inputs.device.type)
        and not torch.compiler.is_compiling()
        and torch._C._functorch.peek_interpreter_stack() is None
        and torch.autograd.forward_ad._current_level < 0
    )
