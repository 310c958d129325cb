"""Fully sharded training: every process holds a part of each weight, of its gradient and of its moments.

Each layer's weights are brought together when it is computed, and freed after it (`fully_shard` of torch, which
accelerate uses, too). Gradients are summed, as everywhere here, and never averaged.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from regard.training.processes.processes import Processes


class Shards:
    """A model in parts. What is computed by one process alone, such as a validation, needs a whole one: `whole`.

    Args:
        model: on the processes' device, the same in all of them; its weights are parts from here on. Layers in a
            `ModuleList` are brought together one at a time.
        processes: those that share it; two or more.
    """

    def __init__(self, model: nn.Module, processes: Processes) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import FSDPModule, fully_shard

        self.model, self.processes = model, processes
        self._whole = copy.deepcopy(model) if processes.first else None
        mesh = init_device_mesh(processes.device.type, (processes.count,))
        for holder in [module for module in model.modules() if isinstance(module, nn.ModuleList)]:
            for layer in holder:
                fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.set_gradient_divide_factor(1.0)  # sums, not means
                module.set_force_sum_reduction_for_comms(True)  # gloo knows no other kind

    def gather(self) -> nn.Module | None:
        """A whole model with the weights of now, on the first process; all processes have to call this."""
        whole = None if self._whole is None else dict(self._whole.named_parameters())
        with torch.no_grad():
            for name, weights in self.model.named_parameters():
                together = full(weights)
                if whole is not None:
                    whole[name].copy_(together)
            if self._whole is not None:  # buffers are in no parts
                for held, now in zip(self._whole.buffers(), self.model.buffers(), strict=True):
                    held.copy_(now)
        return self._whole


def is_part(tensor: Tensor) -> bool:
    """Whether a tensor is a part of a sharded one; found without its class, whose import takes a second."""
    return hasattr(tensor, "to_local")


def local(tensor: Any) -> Tensor:
    """This process's part of a tensor, which is all of it unless it is sharded."""
    part: Tensor = tensor.to_local() if is_part(tensor) else tensor
    return part


def full(tensor: Any) -> Tensor:
    """The whole of a tensor; all processes have to call this if it is sharded."""
    whole: Tensor = tensor.full_tensor() if is_part(tensor) else tensor
    return whole


def part_of(whole: Tensor, like: Any) -> Tensor:
    """The same part of a whole tensor that this process holds of another."""
    if not is_part(like):
        return whole
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(whole.to(like.device), like.device_mesh, like.placements, src_data_rank=None)
