"""Files by path, where a path may lead into a zip archive: `fra-eng.zip/fra.txt`. Nothing is unpacked to disk."""

import contextlib
import difflib
import io
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from regard.errors import DataError

if TYPE_CHECKING:
    Bytes = io.BufferedReader[Any]
else:
    Bytes = io.BufferedReader

_MARKS = (b"PK\x03\x04", b"PK\x05\x06")  # an archive's first bytes; the second are those of an empty one
_ENCRYPTED = 0x1
_DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError)  # what unpacking raises
_LISTED = 8
"""Members that an error names at most."""


def archive_of(path: Path) -> Path | None:
    """The file that a path goes through as if it were a folder, if there is one."""
    return next((parent for parent in path.parents if parent.is_file()), None)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Bytes]:
    """The bytes of a file, or of a member of a zip archive, which is unpacked while it is read.

    Raises:
        DataError: there is no such file or member; the archive is damaged, encrypted or none; it is named without a
            member.
    """
    archive = archive_of(path)
    if archive is not None:
        with _member(archive, path.relative_to(archive).as_posix()) as stream:
            yield stream
        return
    with _plain(path) as stream:
        if stream.peek(4)[:4] in _MARKS:
            with _unzipped(path) as whole:
                raise DataError(
                    f"{path} is a zip archive; name a file in it, as in {path}/NAME. It holds {_members(whole)}"
                )
        yield stream


@contextlib.contextmanager
def _plain(path: Path) -> Iterator[Bytes]:
    try:
        stream = open(path, "rb")  # noqa: SIM115 - closed below; the errors of opening are kept apart from the reader's
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except IsADirectoryError as error:
        raise DataError(f"{path} is a folder; a file of text is expected") from error
    except PermissionError as error:
        raise DataError(f"{path} may not be read (permission denied)") from error
    with stream:
        yield stream


@contextlib.contextmanager
def _member(archive: Path, name: str) -> Iterator[Bytes]:
    with _unzipped(archive) as whole:
        names = _files(whole)
        if name not in names:
            close = difflib.get_close_matches(name, names, n=3)
            hint = f" Did you mean {' or '.join(close)}?" if close else ""
            raise DataError(f"{archive} holds no file {name!r}.{hint} It holds {_members(whole)}")
        if whole.getinfo(name).flag_bits & _ENCRYPTED:
            raise DataError(f"{archive}/{name} is encrypted; unpack it with its password and name the file")
        try:
            member = whole.open(name)
        except NotImplementedError as error:
            raise DataError(f"{archive}/{name} cannot be unpacked: {error}; unpack it yourself") from error
        except _DAMAGE as error:  # the member's own header, which the list of members does not show
            raise _damaged(f"{archive}/{name}", error) from error
        # Reading goes wrong inside the block, as the member is unpacked bit by bit.
        with member, io.BufferedReader(_Raw(cast(io.BufferedIOBase, member), f"{archive}/{name}")) as stream:
            yield stream


class _Raw(io.RawIOBase):
    """A member as raw bytes, so that an error while it is unpacked names it."""

    def __init__(self, member: io.BufferedIOBase, place: str) -> None:
        self._member, self._place = member, place

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            chunk = self._member.read(len(buffer))
        except _DAMAGE as error:
            raise _damaged(self._place, error) from error
        buffer[: len(chunk)] = chunk
        return len(chunk)


@contextlib.contextmanager
def _unzipped(archive: Path) -> Iterator[zipfile.ZipFile]:
    with _plain(archive) as stream:
        marked = stream.peek(4)[:4] in _MARKS
        try:
            whole = zipfile.ZipFile(stream)
        except zipfile.BadZipFile as error:
            if not marked:
                raise DataError(
                    f"{archive} is a file and no zip archive; nothing can be read from inside it"
                ) from error
            raise DataError(f"{archive}: the zip archive is damaged or cut short ({error}); fetch it again") from error
        with whole:
            yield whole


def _damaged(place: str, error: Exception) -> DataError:
    return DataError(f"{place}: the archive is damaged ({error}); fetch it again")


def _files(whole: zipfile.ZipFile) -> list[str]:
    return [name for name in whole.namelist() if not name.endswith("/")]


def _members(whole: zipfile.ZipFile) -> str:
    names = _files(whole)
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return (", ".join(names[:_LISTED]) or "no files") + more
