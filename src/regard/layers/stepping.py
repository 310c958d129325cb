"""A stack that reads one position more, without gradients: all of its layers in one compiled call.

What a step of one vector computes is little beside what its calls cost, so where the loop of `kernels/transformer.py`
knows all parts of a stack, it takes the whole of it. Everything else goes the usual way, with the same numbers.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import chain, repeat
from operator import contains, itemgetter
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from regard.attention.attended import Attended, transformed
from regard.attention.heads import SelfHeads, Sight
from regard.kernels.transformer import ACTIVATIONS, Parts, Sizes, Steps
from regard.layers.cache import Cache
from regard.layers.feed_forward import FeedForward


class _Made:
    """A stack's steps, None where it has none, and what it was made of when they were looked up.

    Args:
        stack: it is not held.
    """

    def __init__(self, stack: nn.Module) -> None:
        self.steps = _steps(stack)
        self._modules = [module for module in stack.modules() if module is not stack]
        self._kinds = list(map(type, self._modules))
        self._vars = list(map(vars, self._modules))
        self._holders = [module._modules for module in stack.modules()]
        self._children = list(chain.from_iterable(map(dict.values, self._holders)))
        self._handles = RemovableHandle.next_id

    # Asked before each step, so in few calls.
    @property
    def current(self) -> bool:
        """Whether no module, method or weight of it was put in another's place since then, and no hook set anywhere."""
        return (
            RemovableHandle.next_id == self._handles
            and list(map(type, self._modules)) == self._kinds
            and list(chain.from_iterable(map(dict.values, self._holders))) == self._children
            and not any(map(contains, self._vars, repeat("forward")))
            and (self.steps is None or self.steps.current)
        )

    @property
    def training(self) -> bool:
        """Whether some part draws, as dropout left on in evaluation does."""
        return any(map(itemgetter("training"), self._vars))


# Of each stack, while it lives. `forget` when its settings may have changed.
_made: WeakKeyDictionary[nn.Module, _Made] = WeakKeyDictionary()


def forget(stack: nn.Module) -> None:
    """Look at the stack's parts anew before its next step."""
    _made.pop(stack, None)


def steps_of(stack: Any, x: Tensor, cache: Cache) -> Steps | None:
    """What makes the stack's next step in one call, None where the usual way is to be taken.

    Args:
        stack: a `Stack` without cross-attention.
        x: what it reads.
        cache: what it read before.
    """
    if type(x) is not Tensor or x.shape[:2] != (1, 1) or x.dtype is not torch.float32 or x.device.type != "cpu":
        return None
    if stack.training or cache.keep is not None or (stack.window is not None and cache.slots >= stack.window):
        return None
    if torch.is_grad_enabled() or torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu") or transformed():
        return None
    made = _made.get(stack)
    if made is None or not made.current:
        made = _made[stack] = _Made(stack)
    steps = made.steps
    return None if steps is None or made.training or not steps.take(x, cache.states) else steps


def one_more(stack: Any, steps: Steps, x: Tensor, cache: Cache) -> tuple[Tensor, Cache, "Looks"]:
    """What the stack makes of one position, the longer cache, and where each layer looked; no slot is padding."""
    where = cache.counted.unsqueeze(-1)
    after = cache.grow(1).done(None, cache.counted + 1, let_go=0)
    bias = None
    if stack.position is not None:
        if stack.position.kind == "add":
            x = stack.position.add(x, where)
        else:
            bias = stack.position.bias(where, where + torch.arange(-cache.slots, 1))
    output, shown = steps.step(x, after.states, bias)
    return output, after, Looks([block.attention for block in stack.blocks], shown, after, Sight(bias=bias))


class Looks(Mapping[str, Attended]):
    """Where each layer looked in one step, "self 0", "self 1", …: made when somebody asks, for hardly anybody does.

    Args:
        heads: the attention of each layer.
        shown: what `Steps.step` tells of them.
        cache: what they looked at.
        sight: what was added to their scores.
    """

    def __init__(self, heads: list[SelfHeads], shown: Tensor, cache: Cache, sight: Sight) -> None:
        self._heads, self._shown, self._cache, self._sight = heads, shown, cache, sight
        self._names = {f"self {layer}": layer for layer in range(len(heads))}

    def __getitem__(self, name: str) -> Attended:
        layer = self._names[name]
        heads, (query, context) = self._heads[layer], self._shown[layer]
        query = query.view(1, heads.heads, 1, heads.width)
        return heads.showing(context, query, partial(self._cache.of_layer, layer), self._sight)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _steps(stack: Any) -> Steps | None:
    """The stack's parts, where the loop knows them all."""
    blocks = list(stack.blocks)
    if not stack.causal or getattr(stack.position, "kind", "add") == "rotate":
        return None
    parts_of = [module for module in stack.modules() if module is not stack]
    if any(one._forward_hooks or one._forward_pre_hooks or "forward" in vars(one) for one in parts_of):
        return None
    if any(type(block).__base__ is not nn.Module for block in blocks):  # a kind of block may do something else
        return None
    for block in blocks:
        attention, feed_forward = block.attention, block.feed_forward
        if block.across is not None or type(attention) is not SelfHeads or type(feed_forward) is not FeedForward:
            return None
        if not attention.fused or feed_forward.activation not in ACTIVATIONS:
            return None
    parts = [
        Parts(
            block.attention_norm,
            block.attention.inputs,
            block.attention.output,
            block.feed_forward_norm,
            block.feed_forward.inputs,
            block.feed_forward.output,
        )
        for block in blocks
    ]
    sizes = [_sizes(block) for block in blocks]
    if not sizes or any(size != sizes[0] for size in sizes) or not Steps.serve(parts, stack.norm, sizes[0]):
        return None
    return Steps(parts, stack.norm, sizes[0])


def _sizes(block: Any) -> Sizes:
    attention = block.attention
    scale = attention.score.scale
    return Sizes(
        attention.heads,
        attention.key_heads,
        attention.width,
        block.feed_forward.activation,
        block.order == "pre",
        attention.width**-0.5 if scale is None else float(scale),
    )
