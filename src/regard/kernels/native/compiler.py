"""Loops in C++ that this machine's compiler builds at their first use; without one everything works, more slowly.

A built loop is kept in `$XDG_CACHE_HOME/regard` (`~/.cache/regard`), under a name made of its source, its flags, the
processor and its own bytes: a file that was cut short would end the program when it is loaded, so it is built again.
`REGARD_COMPILE=0` turns them off, `CXX` names another compiler.
"""

import ctypes
import functools
import os
import platform
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from regard.files import digest, write_atomically

SWITCH = "REGARD_COMPILE"
SOURCES = Path(__file__).parents[1]
"""The folder of all loops: the name of one is its path from here, and so is what it includes."""

declarations: dict[str, Callable[[], str]] = {}
"""By the name of a library, what gives the C++ text of its structures (`abi.py`), which is put before its source."""

_SECONDS = 300
# No relaxed arithmetic: it would take a NaN for a number, and the loops write their vectors out themselves.
_COMPILE = ("-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-std=c++17", "-fPIC", "-Wno-psabi", "-c")
_LINK = ("-shared", "-pthread")


def compiler() -> list[str] | None:
    """The command of the C++ compiler, None where there is none or it's switched off."""
    if os.environ.get(SWITCH) == "0":
        return None
    named = os.environ.get("CXX", "")
    try:
        given = shlex.split(named)
    except ValueError:  # a quotation mark without its partner: no such command, which the build will say
        return [named]
    for command in [given] if given else [["c++"], ["g++"], ["clang++"]]:
        if shutil.which(command[0]):
            return command
    return None


def how(name: str) -> str:
    """In words, how the loops of this name are run here; the first question builds them."""
    if library(name) is not None:
        return "by a native loop"
    if os.environ.get(SWITCH) == "0":
        return f"by torch's own calls, since {SWITCH}=0"
    if compiler() is None:
        named = os.environ.get("CXX", "")
        asked = f" (CXX names {named}, which is none)" if named.strip() else ""
        return f"by torch's own calls, since no C++ compiler is here{asked}"
    return "by torch's own calls, since the native loop could not be built"


@functools.cache
def library(name: str) -> ctypes.CDLL | None:
    """The loops of `<name>.cpp`, built if they were not; None where they cannot be, with a warning if that fails.

    Raises:
        FileNotFoundError: there is no such source.
    """
    command = compiler()
    if command is None:
        return None
    source = SOURCES / f"{name}.cpp"
    if not source.is_file():  # a fault of ours, and no reason to be slow in silence
        raise FileNotFoundError(f"there is no loop {name}: {source} is not there")
    declared = declarations[name]() if name in declarations else ""
    try:
        folder, stem = _folder(), f"{name.replace('/', '-')}-{_tag(source, declared, command)}"
        kept = _kept(folder, stem)
        if kept is not None:
            return kept
        print(
            f"regard: building a faster loop for attention ({name}) with {command[0]}, once ({SWITCH}=0: never)",
            file=sys.stderr,
        )
        built = _build(source, declared, command, folder, stem)
        _refuse_of_others(built)
        return ctypes.CDLL(os.fspath(built))
    except (OSError, subprocess.SubprocessError) as error:
        said = (error.stderr if isinstance(error, subprocess.CalledProcessError) else "") or str(error)
        warnings.warn(
            f"attention takes a slower path: its loop ({name}) could not be built by {shlex.join(command)}: "
            f"{said.strip()[:500]}. Name another compiler in CXX, or set {SWITCH}=0 to try no more",
            RuntimeWarning,
            stacklevel=2,
        )
        return None


def _kept(folder: Path, stem: str) -> ctypes.CDLL | None:
    """The loops that an earlier start has built; a file that cannot be used is warned of and removed.

    Raises:
        PermissionError: others can write to it.
    """
    for built in sorted(folder.glob(f"{stem}-*.so")):
        try:
            _refuse_of_others(built)
            if digest(built).startswith(built.stem.removeprefix(f"{stem}-")):
                return ctypes.CDLL(os.fspath(built))
            fault = "it is damaged"
        except PermissionError:
            raise
        except OSError as error:
            fault = str(error)
        print(f"regard: {built} cannot be used and is built again: {fault}", file=sys.stderr)
        built.unlink(missing_ok=True)
    return None


def _folder() -> Path:
    """Where built loops are kept, by no means in the folder in which somebody happens to stand."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    folder = (cache if cache.is_absolute() else Path(os.path.expanduser("~"), ".cache")) / "regard"
    if not folder.is_absolute():
        raise OSError("there is no home folder to keep it in; name a folder in XDG_CACHE_HOME")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _refuse_of_others(folder)
    return folder


def _refuse_of_others(path: Path) -> None:
    """What lies there is run, so nobody else may have put it there (but the administrator)."""
    if os.name != "posix":
        return
    found = path.stat()
    if found.st_uid not in (0, os.getuid()) or (path.is_dir() and found.st_mode & stat.S_IWOTH):
        raise PermissionError(f"others can write to {path}; name a folder of your own in XDG_CACHE_HOME")


def _tag(source: Path, declared: str, command: list[str]) -> str:
    """What the built loop depends on: another processor may lack the instructions of this one."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines() if cpuinfo.exists() else []
    processor = sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))})
    parts = [
        *_texts(source).values(),
        declared,
        *command,
        *_COMPILE,
        *_LINK,
        platform.platform(),
        platform.processor(),
        *processor,
    ]
    return sha256("\0".join(parts).encode()).hexdigest()[:16]


def _texts(source: Path, known: dict[Path, str] | None = None) -> dict[Path, str]:
    """The text of a source and of all that it includes of ours, each once."""
    found = {} if known is None else known
    if source not in found:
        found[source] = source.read_text(encoding="utf-8")
        for header in re.findall(r'^#include "([^"]+)"', found[source], re.MULTILINE):
            _texts(SOURCES / header, found)
    return found


def _build(source: Path, declared: str, command: list[str], folder: Path, stem: str) -> Path:
    """Build the loops of a source, behind the text of their structures, and keep them whole.

    Of two processes that do so at once the last one's stay.
    """
    with tempfile.TemporaryDirectory() as part:
        object_file, built, header = Path(part, "loop.o"), Path(part, "loop.so"), Path(part, "abi.hpp")
        header.write_text(declared, encoding="utf-8")
        given = [*("-I", os.fspath(SOURCES)), *("-include", os.fspath(header)), os.fspath(source)]
        for step in (
            [*command, *_COMPILE, *given, "-o", os.fspath(object_file)],
            [*command, *_LINK, os.fspath(object_file), "-o", os.fspath(built)],
        ):
            subprocess.run(step, check=True, capture_output=True, text=True, errors="replace", timeout=_SECONDS)
        return write_atomically(folder / f"{stem}-{digest(built)[:16]}.so", built.read_bytes())
