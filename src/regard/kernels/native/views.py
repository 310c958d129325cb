"""Where a tensor's numbers lie, as the native loops are given it."""

from torch import Tensor

NO_VIEW = (0, 0, 0, 0, 0)


def view(tensor: Tensor) -> tuple[int, ...]:
    """Where `(batch, [heads,] positions, dim)` begins, and its steps by item, head, position and number."""
    steps = tensor.stride()
    return tensor.data_ptr(), *(steps if len(steps) == 4 else (steps[0], 0, *steps[1:]))


def spread(tensor: Tensor | None, axes: int) -> tuple[int, ...]:
    """Likewise for a tensor broadcast to that many axes: its steps are 0 along broadcast axes."""
    if tensor is None:
        return NO_VIEW
    steps = tuple(0 if size == 1 else step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    steps = (0,) * (axes - len(steps)) + steps
    return tensor.data_ptr(), *(steps if len(steps) == 4 else (steps[0], 0, *steps[1:]))
