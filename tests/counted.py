"""What torch is asked to do, counted below autograd: products and their operations, large allocations, copies.

A loop in C++ is not seen, only what is made for it and around it.
"""

from collections import Counter

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

aten = torch.ops.aten
# Not torch's own formulas: those of torch 2.9 refuse values of another width.
FUSED = {
    "_scaled_dot_product_flash_attention_for_cpu": lambda query, key, value, *_: (
        2 * query.shape[:-1].numel() * key.shape[2] * (query.shape[3] + value.shape[3])
    ),
    "_scaled_dot_product_flash_attention_for_cpu_backward": lambda up, query, key, value, *_: (
        2 * query.shape[:-1].numel() * key.shape[2] * (3 * query.shape[3] + 2 * value.shape[3])
    ),
}
VECTORS = {"mv": lambda matrix, _: 2 * matrix.numel(), "addmv_": lambda _, matrix, vector: 2 * matrix.numel()}
PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "baddbmm_", "mv", "addmv_", *FUSED}
COPIES = {
    "clone",
    "copy_",
    "cat",
    "stack",
    "constant_pad_nd",
    "_to_copy",
    "index_select",
    "repeat_interleave",
    "repeat",
}


class Counted(TorchDispatchMode):
    """Counts while it is entered, backward passes included.

    Args:
        pairs: queries × keys of one head.
        heads: heads of all items.
    """

    def __init__(self, pairs: int, heads: int) -> None:
        super().__init__()
        self.pairs, self.heads = pairs, heads
        self.operations = 0
        self.products: Counter[str] = Counter()
        self.copies: Counter[str] = Counter()
        self.of_one_head = self.of_all_heads = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        name = func._overloadpacket.__name__
        if name in PRODUCTS:
            self.products[name] += 1
            self.operations += self._operations(func, name, args, kwargs or {}, made)
        if name in COPIES:
            self.copies[name] += 1
        held = {one.untyped_storage()._cdata for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)}
        for one in tree_leaves(made):
            if isinstance(one, torch.Tensor) and one.untyped_storage()._cdata not in held:
                size = one.untyped_storage().nbytes() // one.element_size()
                self.of_all_heads += size >= self.pairs * self.heads
                self.of_one_head += self.pairs <= size < self.pairs * self.heads
        return made

    def _operations(self, func, name, args, kwargs, made):
        if name in FUSED:
            return FUSED[name](*args)
        if name in VECTORS:
            return VECTORS[name](*args[:3])
        packet = getattr(aten, name.removesuffix("_"))
        return flop_registry[packet](*args, **kwargs, out_val=made)

    def record(self) -> dict:
        """As it is written down."""
        return {
            "products": dict(sorted(self.products.items())),
            "copies": dict(sorted(self.copies.items())),
            "allocations of queries × keys": {"one head's": self.of_one_head, "all heads'": self.of_all_heads},
        }
