"""A stack that reads one position more, without gradients: all of its layers in one compiled call.

What a step of one vector computes is little beside what its calls cost, so where the loop of
`kernels/transformer/step.py` knows all parts of a stack, it takes the whole of it; a language model's words and logits
are then made in the same call (`models/transformer/step.py`). Everything else takes the plain path, with the same
numbers.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import chain, repeat
from operator import contains, itemgetter
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from regard.attention.attended import Attended, transformed
from regard.attention.modules.heads import AttentionContext, SelfHeads
from regard.kernels.autograd.hooks import is_exactly, is_hooked
from regard.kernels.transformer.step import ACTIVATIONS, Parts, Sizes, Steps, Words
from regard.layers.dropout import Dropout
from regard.layers.transformer.block import Block
from regard.layers.transformer.cache import Cache
from regard.layers.transformer.feed_forward import FeedForward

_DROPS_NOTHING = Dropout, nn.Dropout, nn.Identity  # while they are not in training


class _CachedSteps:
    """Steps, None where there are none, and what they were made of.

    Args:
        top: the stack, or the model around it; it is not held.
        steps: of it; none are taken while a part of it has hooks.
    """

    def __init__(self, top: nn.Module, steps: Steps | None) -> None:
        self._modules = [module for module in top.modules() if module is not top]
        self._heard = is_hooked(*self._modules, recording=True)
        self.steps = None if self._heard else steps
        self._kinds = list(map(type, self._modules))
        self._vars = list(map(vars, self._modules))
        self._holders = [module._modules for module in top.modules()]
        self._children = list(chain.from_iterable(map(dict.values, self._holders)))
        self._handles = RemovableHandle.next_id

    # Checked before each step, so in few calls.
    @property
    def current(self) -> bool:
        """Whether no module, method or weight of it was put in another's place since then, and no hook set anywhere.

        Nor was the last hook of its parts removed.
        """
        return (
            RemovableHandle.next_id == self._handles
            and list(map(type, self._modules)) == self._kinds
            and list(chain.from_iterable(map(dict.values, self._holders))) == self._children
            and not any(map(contains, self._vars, repeat("forward")))
            and (not self._heard or is_hooked(*self._modules, recording=True))
            and (self.steps is None or self.steps.current)
        )

    @property
    def training(self) -> bool:
        """Whether some part draws, as dropout left on in evaluation does."""
        return any(map(itemgetter("training"), self._vars))


# Of each stack and model, while it lives. `invalidate` when its settings may have changed.
_cached: WeakKeyDictionary[nn.Module, _CachedSteps] = WeakKeyDictionary()


def invalidate(top: nn.Module) -> None:
    """Inspect the parts of a stack, or of a model around one, again before its next step."""
    _cached.pop(top, None)


class _Assumed(threading.local):
    """The model whose steps a loop makes in this thread, if one does, and what was found of it."""

    top: nn.Module | None = None
    steps: Steps | None = None


_assumed = _Assumed()


@contextmanager
def assume_unmodified(top: Any) -> Iterator[None]:
    """Within this context the model is not changed between steps: its parts are checked once, not before each step.

    A step in one call runs nothing of anybody's that could change something, and a model with hooks has no such step.
    """
    before = _assumed.top, _assumed.steps
    # A replaced `step` may do anything in between.
    _assumed.top, _assumed.steps = None if "step" in getattr(top, "__dict__", {}) else top, None
    try:
        yield
    finally:
        _assumed.top, _assumed.steps = before


def steps_of(stack: Any, x: Tensor, cache: Cache) -> Steps | None:
    """What makes the stack's next step in one call, None where the plain path is to be taken.

    Args:
        stack: a `Stack` without cross-attention.
        x: what it reads.
        cache: what it read before.
    """
    if type(x) is not Tensor or x.shape[:2] != (1, 1) or x.dtype is not torch.float32 or x.device.type != "cpu":
        return None
    steps = ready(stack, stack, cache, _steps)
    return None if steps is None or x.shape[2] != steps.dim else steps


def ready(top: Any, stack: Any, cache: Cache, make: Callable[[Any], Steps | None]) -> Steps | None:
    """The steps of a stack, or of the model around it, as they are now; None where the plain path is to be taken.

    Args:
        top: the stack, or the model.
        stack: a `Stack` without cross-attention.
        cache: what it read before.
        make: collects the parts of `top`, after a change.
    """
    if cache.keep is not None or (stack.window is not None and cache.slots >= stack.window):
        return None
    steps = _assumed.steps if top is _assumed.top else None
    if steps is None and not (steps := _now(top, stack, make)):
        return None
    if top is _assumed.top:
        _assumed.steps = steps
    return steps if steps.takes(cache.states) else None


def _now(top: Any, stack: Any, make: Callable[[Any], Steps | None]) -> Steps | None:
    if stack.training or torch.is_grad_enabled() or torch.compiler.is_compiling():
        return None
    if torch.is_autocast_enabled("cpu") or transformed():
        return None
    made = _cached.get(top)
    if made is None or not made.current:
        made = _cached[top] = _CachedSteps(top, make(top))
    return None if made.training else made.steps


def one_more(stack: Any, steps: Steps, x: Tensor, cache: Cache) -> tuple[Tensor, Cache, "LayerAttention"]:
    """What the stack makes of one position, the longer cache, and each layer's attention; no slot is padding."""
    if stack.position is not None and stack.position.kind == "add":
        x = stack.position.add(x, cache.counted.unsqueeze(-1))
    after, bias = cache.one_more(), bias_of(stack, cache)
    output, shown = steps.step(x, after.states, bias)
    return output, after, LayerAttention(stack, shown, after, bias)


def bias_of(stack: Any, cache: Cache) -> Tensor | None:
    """What positions add to the scores of one position more."""
    if stack.position is None or stack.position.kind != "bias":
        return None
    where = cache.counted.unsqueeze(-1)
    bias: Tensor = stack.position.bias(where, where + torch.arange(-cache.slots, 1))
    return bias


class LayerAttention(Mapping[str, Attended]):
    """Each layer's attention in one step, "self 0", "self 1", …: computed on access, since it is rarely read.

    Args:
        stack: that made the step.
        shown: query and context of each layer, from `Steps.step`.
        cache: their keys and values.
        bias: what was added to their scores.
    """

    def __init__(self, stack: Any, shown: Tensor, cache: Cache, bias: Tensor | None) -> None:
        self._stack, self._shown, self._cache, self._bias = stack, shown, cache, bias

    def __getitem__(self, name: str) -> Attended:
        layer = {each: number for number, each in enumerate(self)}[name]
        heads, (query, context) = self._stack.blocks[layer].attention, self._shown[layer]
        query = query.view(1, heads.heads, 1, heads.width)
        attended: Attended = heads.attended_of(
            context, query, partial(self._cache.of_layer, layer), AttentionContext(bias=self._bias)
        )
        return attended

    def __iter__(self) -> Iterator[str]:
        return (f"self {layer}" for layer in range(len(self._shown)))

    def __len__(self) -> int:
        return len(self._shown)


def _steps(stack: Any) -> Steps | None:
    return steps_with(stack, None)


def steps_with(stack: Any, words: Words | None) -> Steps | None:
    """The stack's parts, and what a language model has around them, where the loop knows them all."""
    blocks = list(stack.blocks)
    if not stack.causal or getattr(stack.position, "kind", "add") == "rotate":
        return None
    if any(type(block) is not Block for block in blocks):  # another kind may do something else
        return None
    if not all(is_exactly(part.dropout, *_DROPS_NOTHING) for part in (stack, *blocks)):
        return None
    for block in blocks:
        attention, feed_forward = block.attention, block.feed_forward
        if block.across is not None or not is_exactly(attention, SelfHeads) or type(feed_forward) is not FeedForward:
            return None
        if not attention.is_plain or feed_forward.activation not in ACTIVATIONS:
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
    if not sizes or any(size != sizes[0] for size in sizes) or not Steps.serve(parts, stack.norm, sizes[0], words):
        return None
    return Steps(parts, stack.norm, sizes[0], words)


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
