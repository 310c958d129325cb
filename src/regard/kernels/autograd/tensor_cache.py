"""A value for each tensor while it is alive and unchanged, such as a decoder's prepared keys."""

from collections.abc import Callable
from typing import Generic, TypeVar

from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

Found = TypeVar("Found")


class TensorCache(Generic[Found]):
    """One finding for each tensor, by the object itself, so that a new one at the same address has none yet.

    Changes are those that torch counts (`tensor._version`), and other memory in its place; writes through
    `tensor.data`, numpy or another library's view of the same memory are not noticed. Tensors of inference mode count
    nothing, so nothing is remembered of them. The value must not hold the tensor, which would then never be freed.
    Two threads may both make it.
    """

    def __init__(self) -> None:
        self._found: WeakTensorKeyDictionary = WeakTensorKeyDictionary()

    def get(self, tensor: Tensor, make: Callable[[Tensor], Found]) -> Found:
        """The cached value of the tensor as it is now; else a new one, which replaces it in the cache."""
        if tensor.is_inference():
            return make(tensor)
        # Before it is made: what another thread writes meanwhile is a change.
        now = tensor._version, tensor.data_ptr(), tensor.shape, tensor.stride()
        held = self._found.get(tensor)
        if held is None or held[0] != now:
            held = self._found[tensor] = now, make(tensor)
        found: Found = held[1]
        return found
