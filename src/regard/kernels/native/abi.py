"""The one way into C++: what a loop is given is declared by names and types, and filled by keyword.

A `Library` is a C++ file, and each of its loops takes one structure. The structure's C++ text and the Python function
that fills it are both made from the declaration, so that neither side can have another order than the other:

    LIBRARY = Library("folder/sums", (torch.float32, torch.float64))
    row_sums = LIBRARY.loop("row_sums", rows=INTEGER, width=INTEGER, x=Input("rows", "width"), sums=Output("rows"))

is called as `row_sums(rows=…, width=…, x=…, sums=…)` and calls `void row_sums_float32(const abi::RowSums<float>&)`.
A missing or unknown name is a TypeError. The caller's tensors are held until the loop is done.

A loop checks nothing: it would read or write elsewhere in memory. With `REGARD_CHECK_LOOPS=1`, as in the tests, each
call compares every tensor's type, strides and number of elements with the sizes that are given beside it; one that
does not fit is a ValueError.
"""

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from regard.kernels.native import compiler
from regard.kernels.native.fields import Input
from regard.kernels.native.structure import Field, Structure


class Library:
    """The loops of a C++ file, all declared before the first is called.

    Args:
        name: of the file, its path from `kernels/` without `.cpp`.
        kinds: the types of numbers for which it has each of its loops.
        may_lack: those of them that some compilers or processors don't have.
    """

    def __init__(self, name: str, kinds: Sequence[torch.dtype], may_lack: Sequence[torch.dtype] = ()) -> None:
        self.name, self.kinds, self._may_lack = name, tuple(kinds), tuple(may_lack)
        self._structures: list[Structure] = []
        self._loops: dict[str, tuple[Structure, bool]] = {}
        self._checked: dict[ctypes.CDLL, frozenset[torch.dtype]] = {}
        compiler.declarations[name] = self.header

    def structure(self, name: str, base: Structure | None = None, /, **fields: Field) -> Structure:
        """A part of other structures, or the fields that some loops begin with (`base`)."""
        self._structures.append(made := Structure(self.name, self.kinds, name, base, fields))
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
            RuntimeError: the built file lacks a declared loop.
        """
        built = compiler.library(self.name)
        if built is None:
            return False
        if built not in self._checked:
            self._checked[built] = frozenset(one for one in self.kinds if self._has_all(built, one))
        return kind in self._checked[built]

    def _has_all(self, built: ctypes.CDLL, kind: torch.dtype) -> bool:
        lacks = [symbol for name in self._loops if not hasattr(built, symbol := _symbol(name, kind))]
        if lacks and (kind not in self._may_lack or len(lacks) < len(self._loops)):
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
