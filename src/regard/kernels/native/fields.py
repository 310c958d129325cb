"""The fields of a structure (`structure.py`): of each kind its C++ text, how Python fills it, and its check.

Every field is a number of 8 bytes, or several: an address is one, and so is each stride. So no compiler pads.
"""

import math
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

WORK = "the type that is computed in"
"""As a field's type: float32 for half types, and for others the loop's own."""

# Half types are 16 bits to the declaration: not every compiler knows them.
_NUMBERS: dict[torch.dtype | str | None, str] = {
    torch.float32: "float",
    torch.float64: "double",
    torch.bfloat16: "uint16_t",
    torch.float16: "uint16_t",
    torch.int16: "int16_t",
    torch.int64: "int64_t",
    torch.bool: "uint8_t",
    None: "T",
    WORK: "loops::Work<T>",
}


def number(kind: torch.dtype | str | None) -> str:
    """The C++ type of a tensor's numbers."""
    return _NUMBERS[kind]


class Value(NamedTuple):
    """A number, passed as it is."""

    cpp: str
    code: str

    def declare(self, name: str) -> str:
        """The field in C++."""
        return f"{self.cpp} {name};"

    def fill(self, name: str) -> str:
        """What is packed, as Python's text."""
        return name


INTEGER, REAL = Value("int64_t", "q"), Value("double", "d")
THREADS = Value("int64_t", "q")
"""How many threads torch has: filled in by itself, unless a call names another number."""


class Input:
    """The address of a tensor on a CPU.

    Args:
        *shape: its sizes, each an expression of the structure's integers. Without strides their product counts alone.
        dtype: of the tensor, None for the loop's own.
        optional: whether None may be given, which is a null pointer.
        strides: of how many first axes C++ gets the strides, as `<name>_strides`; the other axes are contiguous.
        view: whether C++ gets a `loops::View`, with the strides of all four axes; a tensor of three has one head, its
            second axis.
        broadcast: whether axes may have size 1, or be missing in front; their strides are 0.
        laid: False where another field says in which order the axes lie.
    """

    qualifier = "const "

    def __init__(
        self,
        *shape: str,
        dtype: torch.dtype | str | None = None,
        optional: bool = False,
        strides: int = 0,
        view: bool = False,
        broadcast: bool = False,
        laid: bool = True,
    ) -> None:
        self.shape, self.dtype, self.optional = shape, dtype, optional
        self.view, self.broadcast, self.laid = view, broadcast, laid
        self.strides = len(shape) if view else strides
        self.code = "q" * (1 + self.strides)
        self.is_typed = dtype is None and not optional
        """Whether a tensor is always there, and is of the loop's type."""

    def declare(self, name: str) -> str:
        """The field in C++."""
        if self.view:
            return f"loops::View {name};"
        pointer = f"{self.qualifier}{number(self.dtype)}* {name};"
        return f"{pointer} int64_t {name}_strides[{self.strides}];" if self.strides else pointer

    def fill(self, name: str) -> str:
        """What is packed, as Python's text."""
        address = f"(0 if {name} is None else {name}.data_ptr())" if self.optional else f"{name}.data_ptr()"
        return ", ".join([address, *self._strides_of(name)])

    def before(self, name: str) -> str:
        """A line of Python that gives the strides their names: to unpack them within a call would take longer."""
        axes, names = len(self.shape), self._strides_of(name)
        text = f"view_strides({name})" if self.view else f"{name}.stride()"
        if self.broadcast:
            text = f"broadcast_strides({name}, {axes})"
        given = f"{(0,) * axes} if {name} is None else {text}" if self.optional else text
        return f"{', '.join(names + ['_'] * (axes - self.strides))}, = {given}"

    def _strides_of(self, name: str) -> list[str]:
        return [f"{name}_{axis}" for axis in range(self.strides)]

    def fault(self, tensor: Any, sizes: Sequence[int], kind: torch.dtype) -> str | None:
        """What a tensor is that it shouldn't be, and what was expected.

        Args:
            tensor: what is given.
            sizes: the values of `shape`.
            kind: the loop's type.
        """
        if tensor is None and self.optional:
            return None
        wanted: Any = kind if self.dtype is None else self.dtype
        if wanted == WORK:
            wanted = torch.float64 if kind is torch.float64 else torch.float32
        if not isinstance(tensor, Tensor) or tensor.dtype is not wanted or not tensor.is_cpu or tensor.is_neg():
            return f"is {_words(tensor)}, and a tensor of {wanted} on cpu was expected"
        shape, expected = tuple(tensor.shape), f"{tuple(sizes)} was expected, ({', '.join(self.shape)})"
        if self.broadcast:
            ends = list(zip(shape[::-1], sizes[::-1], strict=False))
            fits = len(shape) <= len(sizes) and all(size in (1, whole) for size, whole in ends)
        elif self.strides:
            fits = shape == tuple(sizes) or (
                self.view and len(shape) == 3 and (shape[0], 1, *shape[1:]) == tuple(sizes)
            )
        else:
            fits = math.prod(shape) == math.prod(sizes)
        if not fits:
            return f"has shape {shape}, and {expected}"
        if self.laid and not _are_contiguous(shape[self.strides :], tensor.stride()[self.strides :]):
            return f"has shape {shape} and strides {tensor.stride()}, and contiguous numbers were expected"
        return None


class Output(Input):
    """The address of a tensor that the loop writes to."""

    qualifier = ""


class Counts(NamedTuple):
    """The address of an `array("q")` of so many numbers, which may be None."""

    size: str
    code: str = "q"

    @property
    def shape(self) -> tuple[str]:
        """As that of a tensor."""
        return (self.size,)

    def declare(self, name: str) -> str:
        """The field in C++."""
        return f"int64_t* {name};"

    def fill(self, name: str) -> str:
        """What is packed, as Python's text."""
        return f"0 if {name} is None else {name}.buffer_info()[0]"

    def fault(self, given: Any, sizes: Sequence[int], _: Any) -> str | None:
        """What an array is that it shouldn't be, and what was expected."""
        if given is None or (isinstance(given, array) and given.typecode == "q" and len(given) == sizes[0]):
            return None
        return f"is {given!r}, and an array of {sizes[0]} ({self.size}) integers of 64 bits was expected"


def _words(given: Any) -> str:
    if not isinstance(given, Tensor):
        return repr(given)
    sign = " with its sign apart" if given.is_neg() else ""
    return f"a tensor of {given.dtype} on {given.device.type}{sign}"


def _are_contiguous(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size > 1 and stride != step:
            return 0 in shape
        step *= size
    return True


def view_strides(tensor: Tensor) -> tuple[int, ...]:
    """The strides of `(batch, heads, positions, dim)`, or of `(batch, positions, dim)` with one head."""
    steps = tensor.stride()
    return steps if len(steps) == 4 else (steps[0], 0, steps[1], steps[2])


def broadcast_strides(tensor: Tensor, axes: int) -> tuple[int, ...]:
    """The strides of a tensor that is broadcast to that many axes: 0 along those of size 1 and those in front."""
    steps = tuple(0 if size == 1 else step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    return (0,) * (axes - len(steps)) + steps
