"""The one way into C++: what a loop is given is declared by names and types, and filled by keyword.

A `Library` is a C++ file, and each of its loops takes one structure. The structure's C++ text and the Python function
that fills it are both made from the declaration, so that neither side can have another order than the other:

    LIBRARY = Library("folder/sums", (torch.float32, torch.float64))
    row_sums = LIBRARY.loop("row_sums", rows=INTEGER, width=INTEGER, x=Input("rows", "width"), sums=Output("rows"))

is called as `row_sums(rows=…, width=…, x=…, sums=…)` and calls `void row_sums_float32(const abi::RowSums<float>&)`.
A missing or unknown name is a TypeError. The caller's tensors are held until the loop is done.

A loop checks nothing: it would read or write elsewhere in memory. With `REGARD_CHECK_LOOPS=1`, as in the tests, each
call compares every tensor's type, strides and number of elements with the sizes that are given beside it.
"""

import ctypes
import functools
import os
import struct
from array import array
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from regard.kernels.native import compiler
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
        library: whose loops are given it.
        name: in C++, within the namespace `abi`.
        base: whose fields come first; in C++ it inherits them.
        fields: in their order.
    """

    def __init__(self, library: "Library", name: str, base: "Structure | None", fields: dict[str, Field]) -> None:
        self.library, self.name = library, name
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
        packed = f"pack({', '.join(field.fill(name) for name, field in self.fields.items())})"
        keywords = (f"{one}=None" if field is THREADS else one for one, field in self.fields.items())
        lines = [f"def {name}(*, {', '.join(keywords)}):"]
        for one, field in self.fields.items():
            if field is THREADS:
                lines.append(f"if {one} is None: {one} = get_num_threads()")
        for one, field in self.fields.items():
            if os.environ.get(SWITCH) == "1" and not isinstance(field, Value):
                lines.append(f"check({one!r}, {one}, ({', '.join(field.shape)},), {kind_of})")
        before = (field.before(one) for one, field in self.fields.items() if isinstance(field, Input))
        lines += [*filter(None, before), *(line.replace("PACKED", packed) for line in then)]
        scope |= {
            "pack": struct.Struct(self._format).pack,
            "get_num_threads": torch.get_num_threads,
            "broadcast_strides": broadcast_strides,
            "view_strides": view_strides,
            "check": functools.partial(_check, self),
        }
        exec("\n    ".join(lines), scope)
        made: Callable[..., Any] = scope[name]
        return made

    @functools.cached_property
    def filled(self) -> Callable[..., Filled]:
        """Takes the fields by keyword, for a structure that is given to many calls. The library has one type."""
        (kind,) = self.library.kinds
        then = ["fields = locals()", "return Filled(of, PACKED, fields)"]
        return self.function(self.name, "kind", then, of=self, Filled=Filled, kind=kind)

    def row(self, each: Sequence[Filled]) -> Filled:
        """Several, one after the other in memory."""
        return Filled(self, b"".join(one.data for one in each), each)


def _check(of: Structure, name: str, given: Any, sizes: tuple[int, ...], kind: torch.dtype) -> None:
    field = of.fields[name]
    fault = None if isinstance(field, Value) else field.fault(given, sizes, kind)
    if fault is not None:
        raise ValueError(f"{of.library.name}, {of.name}: {name} {fault}")


class Library:
    """The loops of a C++ file, all declared before the first is called.

    Args:
        name: of the file, its path from `kernels/` without `.cpp`.
        kinds: the types of numbers for which it has each of its loops; some may be missing on this machine.
    """

    def __init__(self, name: str, kinds: Sequence[torch.dtype]) -> None:
        self.name, self.kinds = name, tuple(kinds)
        self._structures: list[Structure] = []
        self._loops: dict[str, tuple[Structure, bool]] = {}
        self._checked: dict[ctypes.CDLL, frozenset[torch.dtype]] = {}
        compiler.declarations[name] = self.header

    def structure(self, name: str, base: Structure | None = None, /, **fields: Field) -> Structure:
        """A part of other structures, or the fields that some loops begin with (`base`)."""
        self._structures.append(made := Structure(self, name, base, fields))
        return made

    def loop(self, name: str, base: Structure | None = None, /, **fields: Field) -> Callable[..., None]:
        """A loop as a Python function of its fields by keyword; it's called for the type of its first tensor.

        Args:
            name: in C++ with the type behind it, `<name>_float32`.
            base: a structure whose fields come first.
            fields: in their order.
        """
        return self._declared(name, base, fields, False)

    def predicate(self, name: str, base: Structure | None = None, /, **fields: Field) -> Callable[..., bool]:
        """A `loop` that says whether something is so."""
        return self._declared(name, base, fields, True)

    def _declared(
        self, name: str, base: Structure | None, fields: dict[str, Field], returns: bool
    ) -> Callable[..., Any]:
        own = self.structure("".join(map(str.capitalize, name.split("_"))), base, **fields)
        self._loops[name] = own, returns
        tensors = [one for one, field in own.fields.items() if isinstance(field, Input) and field.is_typed]
        kind = f"{tensors[0]}.dtype"
        then = [f"run, failed = loops[{kind}]", "found = run(PACKED)", "if failed(): out_of_memory()", "return found"]
        scope = {"loops": _Bound(self, name, returns), "out_of_memory": functools.partial(_out_of_memory, name)}
        return own.function(name, kind, then, **scope)

    def header(self) -> str:
        """The structures' C++ text, and what the loops must look like; it's put before the file."""
        lines = ['#pragma once\n#include "native/loops.hpp"\nnamespace abi {\n']
        lines += [one.text for one in self._structures] + ["}  // namespace abi\n"]
        for kind in self.kinds:
            for one in self._structures:
                same = f"sizeof({one.of(kind)}) == {one.size}"
                lines.append(f'static_assert({same}, "{one.name} has another layout in C++ than in Python");\n')
            for name, (own, returns) in self._loops.items():
                result = "bool" if returns else "void"
                lines.append(f'extern "C" {result} {_symbol(name, kind)}(const {own.of(kind)}&);\n')
        return "".join(lines)

    def serves(self, kind: torch.dtype) -> bool:
        """Whether the loops could be built, for numbers of this type.

        Raises:
            RuntimeError: the built file has some of the declared loops and lacks others.
        """
        built = compiler.library(self.name)
        if built is None:
            return False
        if built not in self._checked:
            self._checked[built] = frozenset(one for one in self.kinds if self._has_all(built, one))
        return kind in self._checked[built]

    def _has_all(self, built: ctypes.CDLL, kind: torch.dtype) -> bool:
        lacks = [symbol for name in self._loops if not hasattr(built, symbol := _symbol(name, kind))]
        if lacks and len(lacks) < len(self._loops):
            raise RuntimeError(f"the loops of {self.name} are not those that were declared: no {', '.join(lacks)}")
        return not lacks

    def number(self, name: str) -> int:
        """What a C++ function without arguments gives, `extern "C" int64_t <name>()`."""
        function = getattr(compiler.library(self.name), name)
        function.restype = ctypes.c_int64
        return int(function())


class _Bound(dict[torch.dtype, tuple[Any, Any]]):
    """By type a loop, and what says whether memory was lacking; each is looked up at its first call."""

    def __init__(self, library: Library, name: str, returns: bool) -> None:
        super().__init__()
        self._library, self._name, self._returns = library, name, returns

    def __missing__(self, kind: torch.dtype) -> tuple[Any, Any]:
        if not self._library.serves(kind):
            raise RuntimeError(f"there is no loop {self._name} for {kind} here: ask `serves` first")
        built: Any = compiler.library(self._library.name)
        run = getattr(built, _symbol(self._name, kind))
        run.argtypes, run.restype = (ctypes.c_char_p,), ctypes.c_bool if self._returns else None
        self[kind] = run, built.loops_failed
        return self[kind]


def _symbol(name: str, kind: torch.dtype) -> str:
    return f"{name}_{str(kind).removeprefix('torch.')}"


def _out_of_memory(name: str) -> None:
    raise MemoryError(f"the loop {name} found no memory to work in; give it fewer items or positions at once")
