"""A value for each tensor while it is alive and unchanged, such as what is made of a decoder's keys."""

from collections.abc import Callable
from typing import Generic, TypeVar

from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

Found = TypeVar("Found")


class TensorCache(Generic[Found]):
    """One finding for each tensor, by the object itself, so that a new one at the same address has none yet.

    Changes are those that torch counts (`tensor._version`), and other memory in its place; what is written through
    `tensor.data`, numpy or another library's view of the same memory isn't seen. Tensors of inference mode count
    nothing, so nothing is remembered of them. What is found must not hold the tensor, which would then never die.
    Two threads may both make it.
    """

    def __init__(self) -> None:
        self._found: WeakTensorKeyDictionary = WeakTensorKeyDictionary()

    def get(self, tensor: Tensor, make: Callable[[Tensor], Found]) -> Found:
        """What was kept of the tensor as it is now, else what is made of it, which is kept in its place."""
        if tensor.is_inference():
            return make(tensor)
        # Before it is made: what another thread writes meanwhile is a change.
        now = tensor._version, tensor.data_ptr(), tensor.shape, tensor.stride()
        held = self._found.get(tensor)
        if held is None or held[0] != now:
            held = self._found[tensor] = now, make(tensor)
        found: Found = held[1]
        return found
