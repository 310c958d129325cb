"""Of what type, and on which device, a module computes: its states are made like its weights."""

from collections.abc import Iterator
from itertools import chain

import torch
from torch import Tensor, nn


def reference_tensor(module: nn.Module) -> Tensor:
    """A tensor of the type and on the device that the module computes in, to make others like it.

    Its first weight in floating point: a parameter; where it has none, as a frozen module may hold its weights
    otherwise, a buffer; and then any tensor that lies on it. Where it has none at all, as after dynamic quantization,
    one of torch's default type and device.
    """
    for tensor in chain(module.parameters(), module.buffers(), _attributes(module)):
        if tensor.is_floating_point():
            return tensor
    return torch.empty(0)


def _attributes(module: nn.Module) -> Iterator[Tensor]:
    """Tensors that replace a weight and are neither parameters nor buffers."""
    for part in module.modules():
        yield from (held for held in vars(part).values() if isinstance(held, Tensor))
