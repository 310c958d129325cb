"""The gradient of keys that serve at each step of a loop: one table, to which the steps add where it lies.

Each step's own would be a table as large as all keys, written to memory that nobody had touched before, and added to
the others. Steps depend on a sentinel, made from the keys, whose backward pass comes after all of theirs: there the
table is handed on.
"""

from typing import Any

import torch
from torch import Tensor

from regard.kernels.autograd.tensor_cache import TensorCache


class Gathered:
    """The gradients of some keys, of each backward pass that runs by itself."""

    def __init__(self) -> None:
        self._tables: dict[int, Tensor] = {}

    def table(self, like: Tensor) -> tuple[Tensor, bool]:
        """Where a step adds to, and whether there's something to add to: by the first one it is to be written."""
        task = torch._C._current_graph_task_id()
        if task in self._tables:
            return self._tables[task], True
        made = self._tables[task] = torch.empty_like(like)
        return made, False

    def take(self) -> Tensor | None:
        """All that steps have added in this backward pass; None where no step did."""
        return self._tables.pop(torch._C._current_graph_task_id(), None)


_sentinels: TensorCache[tuple[Gathered, Tensor]] = TensorCache()


def sentinel_of(key: Tensor) -> tuple[Gathered, Tensor] | None:
    """What all steps with these keys share, as long as they are alive and unchanged; None where nothing is gathered.

    Keys that were made from nothing are not gathered: their sentinel would keep them alive.
    """
    if not torch.is_grad_enabled() or key.grad_fn is None:
        return None
    return _sentinels.get(key, _make_sentinel)


def _make_sentinel(key: Tensor) -> tuple[Gathered, Tensor]:
    gathered = Gathered()
    return gathered, _Sentinel.apply(gathered, key)


class _Sentinel(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gathered: Gathered, key: Tensor) -> Tensor:
        ctx.gathered, ctx.width = gathered, key.shape[-1]
        return key.new_zeros(())

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> tuple[None, Tensor | None]:
        table = ctx.gathered.take()
        return None, None if table is None else table[..., : ctx.width]
