"""Files that are either whole or not there."""

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from regard.errors import RunError

T = TypeVar("T")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_atomically(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write a file so that a reader, or a kill at any moment, sees the old content or the new, never a part.

    Text is written as UTF-8, its line breaks unchanged on every platform.
    """
    raw = content.encode("utf-8") if isinstance(content, str) else content
    return replace_atomically(path, lambda temporary: temporary.write_bytes(raw))


def replace_atomically(path: str | os.PathLike[str], write: Callable[[Path], Any]) -> Path:
    """Let `write` fill a temporary file beside `path`, flush it to the disk, then rename it into place."""
    with replacing(path) as temporary:
        write(temporary)
    return Path(path)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file beside `path` to fill and close; flushed and renamed into place at the end, gone on an error.

    A link stays one, and what it names is replaced. A device or a pipe, such as /dev/null, is never replaced: it gets
    the content.

    Raises:
        OSError: the file cannot be made there, or the disk is full; it names `path`, not the temporary file.
    """
    refuse_folder(path)
    with _full_disk_named(path), _filled(path) as temporary:
        yield temporary


@contextmanager
def _full_disk_named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name the file in the error of a full disk, in which the system names none."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in _FULL:
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        raise


@contextmanager
def _filled(path: str | os.PathLike[str]) -> Iterator[Path]:
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        with tempfile.TemporaryDirectory() as folder:
            whole = Path(folder) / "whole"
            yield whole
            with open(whole, "rb") as source, open(target, "wb") as device:
                shutil.copyfileobj(source, device)
        return
    try:
        _make_folder(target.parent)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.", suffix=".part")
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
        sync_folder(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:  # where a folder should be there is a file
        raise NotADirectoryError(errno.ENOTDIR, f"{folder} is a file, not a folder") from error


def refuse_folder(path: str | os.PathLike[str]) -> None:
    """Refuse to write a file where a folder is.

    Raises:
        IsADirectoryError: there is one.
    """
    if Path(path).is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder; the name of a file to write is expected", os.fspath(path))


def whole_folder(path: str | os.PathLike[str], fill: Callable[[Path], Any]) -> Path:
    """Let `fill` make a folder that is there whole, or not at all; an empty one at `path` is replaced.

    Raises:
        OSError: there is something else at `path`, perhaps since another program has put it there meanwhile.
    """
    folder = Path(os.path.abspath(path))  # "." has no name
    _make_folder(folder.parent)
    part = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name[:100]}.", suffix=".part"))
    try:
        fill(part)
        if folder.is_dir():
            folder.rmdir()
        os.chmod(part, 0o777 & ~_umask())
        os.replace(part, folder)
        sync_folder(folder.parent)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def digest(file: Path) -> str:
    """The sha256 of a file's bytes."""
    found = sha256()
    with open(file, "rb") as content:
        while block := content.read(1 << 20):
            found.update(block)
    return found.hexdigest()


def write_json(path: str | os.PathLike[str], content: Any) -> Path:
    """Write JSON atomically, readable by people in any script."""
    return write_atomically(path, json.dumps(content, ensure_ascii=False, indent=2) + "\n")


def read_json(path: Path, make: Callable[[Any], T], tells: str) -> T:
    """What a run keeps in a file of JSON.

    Args:
        path: the file.
        make: what is wanted of its content; what it cannot use raises ValueError, TypeError or KeyError.
        tells: what the run does not say without the file, as in "which words it knows".

    Raises:
        RunError: it is missing, is not JSON, or cannot be used.
    """
    try:
        return make(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError as error:
        raise RunError(f"{path} is missing: the run does not say {tells}") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise RunError(f"{path} is damaged: {error}") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def sync_folder(folder: Path) -> None:
    """Make a rename durable; Windows has no handle for a folder and needs none."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
