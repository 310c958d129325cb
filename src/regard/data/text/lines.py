"""Lines of text: one line in is one line out, or an error that names file and line."""

import gzip
import io
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from regard.data.text.archives import opened
from regard.errors import DataError, quoted

if TYPE_CHECKING:
    # What typeshed calls `sys.stdin.buffer`; at run time that, open files and gzip files all are buffered readers.
    ByteStream = BinaryIO | io.BufferedIOBase
else:
    ByteStream = io.BufferedIOBase

_GZIP = b"\x1f\x8b"
# The four-byte marks come first: UTF-32's little-endian mark begins with UTF-16's.
_FOREIGN_MARKS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


def read_lines(path: str | os.PathLike[str]) -> list[str]:
    r"""All lines of a UTF-8 file, plain or gzip (known by its content), without their breaks.

    A path may lead into a zip archive, as in ``fra-eng.zip/fra.txt``.

    Only ``\n``, ``\r\n`` and ``\r`` end a line; U+2028, a form feed or NEL are ordinary characters. Empty lines stay,
    the last line needs no break, and a byte-order mark at the start is left out.

    Raises:
        DataError: no such file, bytes that are not UTF-8 (with file and line), another encoding, a damaged archive.
    """
    return list(iterate_lines(path))


def iterate_lines(path: str | os.PathLike[str]) -> Iterator[str]:
    """The lines of `read_lines` one by one, for files larger than memory.

    Raises:
        DataError: as `read_lines`.
    """
    origin = Path(path)
    with opened(origin) as raw:
        if raw.peek(2)[:2] != _GZIP:
            yield from decode_lines(raw, str(origin))
            return
        try:
            with gzip.open(raw, "rb") as unpacked:
                yield from decode_lines(unpacked, str(origin))
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(
                f"{origin}: the gzip file is damaged or cut short ({error}); make or fetch it again"
            ) from error


def ending_of(path: str | os.PathLike[str]) -> str:
    """How a file's name ends, in lower case and without a further ``.gz``: `.json` of ``DEV.JSON.gz``."""
    name = Path(path)
    return (name.with_suffix("") if name.suffix.lower() == ".gz" else name).suffix.lower()


def several(texts: Sequence[str]) -> Sequence[str]:
    """The texts as they were given.

    Raises:
        DataError: it is one text, whose characters would be taken for texts.
    """
    if isinstance(texts, str):
        raise DataError(f"a list of texts is expected; for one text write [{quoted(texts)}]")
    return texts


def decode_lines(stream: ByteStream, origin: str) -> Iterator[str]:
    """Lines of an open binary stream such as ``sys.stdin.buffer``, without their breaks.

    Args:
        stream: UTF-8, with a byte-order mark or without.
        origin: what errors call it.

    Raises:
        DataError: another encoding, or bytes that are not UTF-8; the message names the line.
    """
    # A pipe may give fewer bytes than asked, so the mark is looked for in what a buffered reader has peeked.
    buffered = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, stream))
    start = buffered.peek(4)[:4]
    for mark, encoding in _FOREIGN_MARKS.items():
        if start.startswith(mark):
            raise DataError(
                f"{origin} is {encoding}; UTF-8 is expected. Convert it: iconv -f {encoding} -t UTF-8 FILE > NEW"
            )
    # newline=None: exactly the three breaks, each read as "\n". Bytes that are not UTF-8 become lone surrogates, which
    # valid UTF-8 never decodes to, so that the line that holds them is known.
    text = io.TextIOWrapper(buffered, encoding="utf-8-sig", errors="surrogateescape", newline=None)
    try:
        for number, line in enumerate(text, start=1):
            if not line.isascii():
                _check(line, origin, number)
            yield line.removesuffix("\n")
    finally:
        # The stream is the caller's to close, and a reader that is thrown away closes what it reads. A stream that is
        # closed by now can't be detached, and needn't be.
        if not buffered.closed:
            text.detach()
            if buffered is not stream:
                buffered.detach()


def _check(line: str, origin: str, number: int) -> None:
    for character in line:
        if "\udc80" <= character <= "\udcff":
            byte = ord(character) - 0xDC00
            raise DataError(
                f"{origin}, line {number}: byte 0x{byte:02x} is not UTF-8. Convert the file if it has another encoding "
                "(iconv -f LATIN1 -t UTF-8 FILE > NEW), or mend the line"
            )
