"""The processes that train together: who they are, and sums over all of them.

Each process takes every n-th row of every batch. Losses and gradients are summed over the processes and divided once,
by the tokens of the whole update: the numbers are those of one process, a process that got no rows needs no care, and
neither does a parameter that an update does not use. That is why gradients are summed here and not by
`DistributedDataParallel`, which averages, counts hooks, and waits for rows that never come.
"""

import os
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object, parse_flag_from_env

from regard.errors import RunError


class Processes:
    """All processes of this run, as started by `torchrun` or `accelerate launch`; a lone process without either.

    They communicate over gloo on CPUs and over the device's own backend elsewhere. The environment's
    `ACCELERATE_USE_CPU=true` keeps a run off a device that is there.

    Raises:
        RunError: not as many processes met as were launched.
    """

    def __init__(self) -> None:
        wanted = int(os.environ.get("WORLD_SIZE", "1"))
        cpu = parse_flag_from_env("ACCELERATE_USE_CPU") or (wanted > 1 and not torch.accelerator.is_available())
        self._state = PartialState(cpu=cpu)
        if self._state.num_processes != wanted:  # else each would train the whole, into one folder
            raise RunError(
                f"{wanted} processes were launched, but {self._state.num_processes} met; accelerate was set up before "
                "them or does not know this device. Set ACCELERATE_USE_CPU=true to train on CPUs"
            )
        self.device: torch.device = self._state.device
        self.rank: int = self._state.process_index
        self.count: int = self._state.num_processes

    @property
    def first(self) -> bool:
        """Whether this process writes files and reports."""
        return self.rank == 0

    def share(self, indices: list[int]) -> list[int]:
        """This process's rows of a batch; perhaps none."""
        return indices[self.rank :: self.count]

    def sum(self, values: torch.Tensor) -> torch.Tensor:
        """The sum over all processes, in place."""
        if self.count > 1:
            torch.distributed.all_reduce(values)
        return values

    def sum_gradients(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        """Sum the gradients over all processes; a parameter that none of them used keeps none."""
        if self.count == 1:
            return
        used = torch.tensor([float(parameter.grad is not None) for parameter in parameters], device=self.device)
        wanted = [parameter for parameter, n in zip(parameters, self.sum(used).tolist(), strict=True) if n]
        if not wanted:
            return
        for parameter in wanted:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [parameter.grad for parameter in wanted if parameter.grad is not None]
        together = self.sum(torch.cat([gradient.reshape(-1) for gradient in gradients]))
        parts = together.split([gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))

    def copy_from_first(self, model: torch.nn.Module) -> None:
        """Give every process the first one's weights and buffers."""
        if self.count > 1:
            for tensor in model.state_dict().values():
                torch.distributed.broadcast(tensor, src=0)

    def broadcast(self, value: Any) -> Any:
        """The first process's value, in every process."""
        if self.count == 1:
            return value
        held = [value]
        broadcast_object_list(held)
        return held[0]

    def gather(self, value: Any) -> list[Any]:
        """Every process's value, in order of rank."""
        return [value] if self.count == 1 else gather_object([value])

    def wait(self) -> None:
        """Until all processes are here."""
        self._state.wait_for_everyone()
