"""A C++ structure from its declaration, and the Python function that fills it, which share one order of names."""

import functools
import os
import struct
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from regard.kernels.native.fields import THREADS, Counts, Input, Value, broadcast_strides, number, view_strides

SWITCH = "REGARD_CHECK_LOOPS"


class Filled:
    """A structure that was filled once for many calls. It holds its tensors, and has its fields by their names."""

    def __init__(self, of: "Structure", data: bytes, fields: Any) -> None:
        self.of, self.data, self._fields = of, data, fields
        self._numbers = array("q", data)
        self.address: int = self._numbers.buffer_info()[0]

    def __len__(self) -> int:
        return len(self.data) // self.of.size

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]


class Part(NamedTuple):
    """A structure within another; or, `apart`, the address of so many that follow each other."""

    of: "Structure"
    apart: str | None = None

    @property
    def code(self) -> str:
        """For `struct`."""
        return "q" if self.apart else f"{self.of.size}s"

    @property
    def shape(self) -> tuple[str]:
        """As that of a tensor."""
        return (self.apart or "1",)

    def declare(self, name: str) -> str:
        """The field in C++."""
        kind = self.of.name + "<T>" * self.of.generic
        return f"const {kind}* {name};" if self.apart else f"{kind} {name};"

    def fill(self, name: str) -> str:
        """What is packed, as Python's text."""
        return f"{name}.address" if self.apart else f"{name}.data"

    def fault(self, given: Any, sizes: Sequence[int], _: Any) -> str | None:
        """What is given that shouldn't be, and what was expected."""
        if isinstance(given, Filled) and given.of is self.of and len(given) == sizes[0]:
            return None
        what = f"{len(given)} of {given.of.name}" if isinstance(given, Filled) else repr(given)
        return f"is {what}, and {sizes[0]} of {self.of.name} was expected"


Field = Value | Input | Counts | Part


class Structure:
    """Names and types in an order that C++ and Python share.

    Args:
        owner: the library whose loops are given it.
        kinds: the types of numbers for which these are.
        name: in C++, within the namespace `abi`.
        base: whose fields come first; in C++ it inherits them.
        fields: in their order.
    """

    def __init__(
        self,
        owner: str,
        kinds: Sequence[torch.dtype],
        name: str,
        base: "Structure | None",
        fields: Mapping[str, Field],
    ) -> None:
        self.name, self._owner, self._kinds = name, owner, kinds
        self.fields: dict[str, Field] = {**(base.fields if base else {}), **fields}
        lines = [field.declare(name) for name, field in fields.items()]
        self.generic: bool = any("<T>" in line or "T* " in line for line in lines) or (
            base is not None and base.generic
        )
        above = f" : {base.name}{'<T>' * base.generic}" if base else ""
        template = "template <typename T>\n" if self.generic else ""
        self.text = "\n    ".join([f"{template}struct {name}{above} {{", *lines]) + "\n};\n"
        self._format = "=" + "".join(field.code for field in self.fields.values())
        self.size = struct.calcsize(self._format)

    def of(self, kind: torch.dtype) -> str:
        """Its C++ name for numbers of a type."""
        return f"abi::{self.name}<{number(kind)}>" if self.generic else f"abi::{self.name}"

    def function(self, name: str, kind_of: str, then: Sequence[str], **scope: Any) -> Callable[..., Any]:
        """A function that takes the fields by keyword.

        Args:
            name: of the function.
            kind_of: the type of the numbers, as Python's text.
            then: what it does, as lines of Python, with `PACKED` for the structure's bytes.
            scope: what else the lines name.
        """
        threads = [one for one, field in self.fields.items() if field is THREADS]
        tensors = {one: field for one, field in self.fields.items() if isinstance(field, Input)}
        checked = {one: field for one, field in self.fields.items() if not isinstance(field, Value)}
        packed = f"pack({', '.join(field.fill(one) for one, field in self.fields.items())})"
        lines = [f"def {name}(*, {', '.join(f'{one}=None' if one in threads else one for one in self.fields)}):"]
        lines += [f"if {one} is None: {one} = get_num_threads()" for one in threads]
        if os.environ.get(SWITCH) == "1":
            lines += [
                f"check({one!r}, {one}, ({', '.join(field.shape)},), {kind_of})" for one, field in checked.items()
            ]
        lines += [field.before(one) for one, field in tensors.items() if field.strides]
        lines += [line.replace("PACKED", packed) for line in then]
        scope |= {
            "pack": struct.Struct(self._format).pack,
            "get_num_threads": torch.get_num_threads,
            "broadcast_strides": broadcast_strides,
            "view_strides": view_strides,
            "check": functools.partial(self._check, checked),
        }
        exec("\n    ".join(lines), scope)
        made: Callable[..., Any] = scope[name]
        return made

    @functools.cached_property
    def filled(self) -> Callable[..., Filled]:
        """Takes the fields by keyword, for a structure that is given to many calls. The library has one type."""
        (kind,) = self._kinds
        then = ["fields = locals()", "return Filled(of, PACKED, fields)"]
        return self.function(self.name, "kind", then, of=self, Filled=Filled, kind=kind)

    def _check(
        self,
        fields: Mapping[str, Input | Counts | Part],
        name: str,
        given: Any,
        sizes: tuple[int, ...],
        kind: torch.dtype,
    ) -> None:
        if (fault := fields[name].fault(given, sizes, kind)) is not None:
            raise ValueError(f"{self._owner}, {self.name}: {name} {fault}")

    def row(self, each: Sequence[Filled]) -> Filled:
        """Several, one after the other in memory."""
        return Filled(self, b"".join(one.data for one in each), each)
