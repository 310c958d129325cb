"""What was found of a tensor, as long as it is alive and unchanged, such as what is made of a decoder's keys."""

from typing import Generic, TypeVar

from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

Found = TypeVar("Found")


class Remembered(Generic[Found]):
    """One finding for each tensor, by the object itself, so that a new one at the same address has none yet.

    Changes are those that torch counts (`tensor._version`), and other memory in its place; what is written through
    `tensor.data`, numpy or another library's view of the same memory isn't seen. Tensors of inference mode count
    nothing, so nothing is remembered of them. What is found must not hold the tensor, which would then never die.
    Two threads may both look.
    """

    def __init__(self) -> None:
        self._found: WeakTensorKeyDictionary = WeakTensorKeyDictionary()

    def get(self, tensor: Tensor) -> Found | None:
        """What was kept of the tensor as it is now; None where nothing was."""
        if tensor.is_inference():
            return None
        held = self._found.get(tensor)
        return held[1] if held is not None and held[0] == _now(tensor) else None

    def keep(self, tensor: Tensor, found: Found) -> Found:
        """Remember this of the tensor as it is now, in the place of what was kept before."""
        if not tensor.is_inference():
            self._found[tensor] = _now(tensor), found
        return found


def _now(tensor: Tensor) -> tuple[int, int]:
    return tensor._version, tensor.data_ptr()
