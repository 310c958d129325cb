"""Many gradients at once for functions with a hand-written backward, which know one: each is taken by itself.

`torch.autograd.grad(…, is_grads_batched=True)`, and with it `torch.autograd.functional.jacobian(…, vectorize=True)`,
hands a function the incoming gradient as one tensor with an axis that it does not show; `torch.func.vmap` around a
backward pass does the same with a class of its own. Loops that read memory find no numbers there.

What compiles a backward pass (compiled autograd) would trace them, and is kept from it as well.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._C import _functorch
from torch._functorch.pyfunctorch import retrieve_current_functorch_interpreter

Gradients = tuple[Tensor | None, ...]
Backward = Callable[..., Gradients]


def untraced(backward: Backward) -> Backward:
    """For the `backward` of a `torch.autograd.Function`: who compiles a backward pass calls it, and does not trace it.

    A trace does not see what loops and numpy write where it lies, and takes the stack of transforms for never empty.
    """

    @functools.wraps(backward)
    def wrapped(ctx: Any, *upstream: Tensor | None) -> Gradients:
        if torch.compiler.is_compiling():
            run: Backward = torch.compiler.disable(backward)  # here, for it imports the compiler
            return run(ctx, *upstream)
        return backward(ctx, *upstream)

    return wrapped


def unbatched(backward: Backward) -> Backward:
    """For the `backward` of a `torch.autograd.Function`: of a batch of gradients it is given one after the other.

    So it may be in a mapping within a mapping, and where derivatives of these gradients are wanted. The decorator
    comes before that of `once`.

    Args:
        backward: its result is a tuple, of which the same places are None whatever comes from above.

    Raises:
        RuntimeError: the incoming gradient is followed by another transform, such as `torch.func.grad`.
    """

    @untraced
    @functools.wraps(backward)
    def wrapped(ctx: Any, *upstream: Tensor | None) -> Gradients:
        if _functorch.peek_interpreter_stack() is None and not any(map(_is_batch, upstream)):
            return backward(ctx, *upstream)
        return _taken_apart(functools.partial(backward, Unpacked(ctx)), upstream)

    return wrapped


class Unpacked:
    """A context whose saved tensors are read once: a checkpoint makes them for one access alone."""

    def __init__(self, ctx: Any) -> None:
        self._ctx, self.saved_tensors = ctx, ctx.saved_tensors

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)


def _is_batch(one: Tensor | None) -> bool:
    """Whether it is a batch of `is_grads_batched`; those of `torch.func.vmap` are known by what runs around them."""
    return one is not None and _functorch.is_legacy_batchedtensor(one)


def _taken_apart(back: Backward, upstream: Sequence[Tensor | None]) -> Gradients:
    """What `back` gives for each of a batch, the innermost mapping first."""
    if any(map(_is_batch, upstream)):
        return _of_batch(back, upstream)
    if _functorch.peek_interpreter_stack() is not None:
        return _of_mapping(back, upstream)
    return back(*upstream)


def _of_batch(back: Backward, upstream: Sequence[Tensor | None]) -> Gradients:
    """Of `is_grads_batched`."""
    level = max(_innermost(one) for one in upstream if one is not None)
    sizes = [torch._remove_batch_dim(one, level, 1, 0).shape[0] for one in upstream if one is not None]
    count = 0 if 0 in sizes else max(sizes)
    known = [None if one is None else torch._remove_batch_dim(one, level, count, 0) for one in upstream]
    found = _each(back, known, count)
    return tuple(None if one is None else torch._add_batch_dim(one, 0, level) for one in found)


def _innermost(one: Tensor) -> int:
    """The highest of the levels that a tensor is batched at, 0 if at none: whoever runs around it may be a thread away.

    A tensor that is not batched at a level is expanded to as many rows as wanted.
    """
    level = 0
    while _functorch.is_legacy_batchedtensor(one):
        level += 1
        once, twice = (torch._remove_batch_dim(one, level, count, 0) for count in (1, 2))
        one = once if once.shape == twice.shape else one
    return level


def _of_mapping(back: Backward, upstream: Sequence[Tensor | None]) -> Gradients:
    """Of `torch.func.vmap`; other transforms are passed by where they do not follow the incoming gradient."""
    mapping = retrieve_current_functorch_interpreter()
    level = mapping.level()
    pairs = [(None, None) if one is None else _functorch._unwrap_batched(one, level) for one in upstream]
    known = [one for one, _ in pairs]
    if any(one is not None and _functorch.maybe_get_level(one) == level for one in known):
        raise RuntimeError(
            "torch.func.grad, jvp and the like do not follow the incoming gradient through gradients that are written "
            "out; torch.autograd.grad(…, create_graph=True) has their derivatives, where they have some"
        )
    sizes = [one.shape[axis] for one, axis in pairs if one is not None and axis is not None]
    with mapping.lower():
        if not sizes:
            return _taken_apart(back, known)
        rows = [
            one if one is None else one.expand(sizes[0], *one.shape) if axis is None else one.movedim(axis, 0)
            for one, axis in pairs
        ]
        found = _each(back, rows, sizes[0])
    return tuple(None if one is None else _functorch._add_batch_dim(one, 0, level) for one in found)


def _each(back: Backward, upstream: Sequence[Tensor | None], count: int) -> list[Tensor | None]:
    """The gradients of each of so many, one above the other; of none, as many axes as of one."""
    given = upstream if count else [one if one is None else one.new_zeros(1, *one.shape[1:]) for one in upstream]
    made = [_taken_apart(back, [one if one is None else one[place] for one in given]) for place in range(max(1, count))]
    return [None if same[0] is None else torch.stack(same)[:count] for same in zip(*made, strict=True)]
