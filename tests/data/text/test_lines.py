import gzip
import io
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings, strategies as st

from regard.data.algorithms.problem import read_rows
from regard.data.algorithms.sort import _priority
from regard.data.pairs.pharaoh import parse_pharaoh
from regard.data.text.lines import decode_lines, read_lines
from regard.data.text.units import normalize
from regard.errors import DataError
from tests.shared import SHARED, needs_shared


def write(folder, content: bytes, name="text.txt"):
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"a b\n\nc\n", ["a b", "", "c"]),
        (b"a b\n\nc", ["a b", "", "c"]),
        (b"\n", [""]),
        (b"", []),
        (b"\n\n", ["", ""]),
        (b"a\r\nb\rc\n", ["a", "b", "c"]),
        (b"a\r\n\r\nb\r\r", ["a", "", "b", ""]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        (b" \n\t\n", [" ", "\t"]),
    ],
)
def test_b29_one_line_in_is_one_line_out(tmp_path, content, lines):
    assert read_lines(write(tmp_path, content)) == lines
    assert read_lines(write(tmp_path, gzip.compress(content), "text.gz")) == lines
    stream = io.BytesIO(content)
    assert list(decode_lines(stream, "stdin")) == lines
    assert not stream.closed


def test_a_stream_may_be_closed_before_its_reader():
    stream = io.BytesIO(b"a\nb\n")
    lines = decode_lines(stream, "stdin")
    assert next(lines) == "a"
    stream.close()
    lines.close()  # without an error


@pytest.mark.parametrize("mark", list("\u2028\u2029\x0b\x0c\x1c\x1d\x1e\x85\x00\ufeff\u200b"))
def test_k8_other_separators_do_not_break_a_line(tmp_path, mark):
    assert read_lines(write(tmp_path, f"a{mark}b\nc".encode())) == [f"a{mark}b", "c"]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.text(st.characters(blacklist_characters="\r\n", blacklist_categories=("Cs",)), max_size=7), max_size=5)
)
def test_what_is_written_is_read(lines):
    content = "".join(line + "\n" for line in lines).encode()
    # A mark at the very start is no text, by promise.
    expected = [lines[0].removeprefix("\ufeff"), *lines[1:]] if lines else []
    assert list(decode_lines(io.BytesIO(content), "text")) == expected


def test_b31_bytes_that_are_not_utf8_name_file_and_line(tmp_path):
    path = write(tmp_path, "gut\nschön\n".encode() + "schön\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"text\.txt, line 3: byte 0xf6 is not UTF-8"):
        read_lines(path)
    # An encoded surrogate is not UTF-8 either.
    with pytest.raises(DataError, match="line 1"):
        read_lines(write(tmp_path, b"\xed\xa0\x80\n"))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32"])
def test_b31_utf16_is_named_with_the_way_out(tmp_path, encoding):
    content = ("\ufeff" if encoding == "utf-16-be" else "") + "a\nb\n"
    with pytest.raises(DataError, match=rf"{encoding[:6].upper()}; UTF-8 is expected.*iconv"):
        read_lines(write(tmp_path, content.encode(encoding)))


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(DataError, match=r"absent\.txt: no such file"):
        read_lines(tmp_path / "absent.txt")
    with pytest.raises(DataError, match="is a folder"):
        read_lines(tmp_path)
    whole = gzip.compress(os.urandom(5000).hex().encode())
    for damaged in (whole[:-9], whole[:20] + bytes(200) + whole[220:]):
        with pytest.raises(DataError, match=r"broken\.gz.*damaged or cut short"):
            read_lines(write(tmp_path, damaged, "broken.gz"))


def test_b31_the_platform_encoding_does_not_matter(tmp_path):
    write(tmp_path, "\ufeff\u201fé中😀\nb\n".encode())
    code = """
from regard.data.text.lines import read_lines
from regard.data.tokenizers.factory import load_tokenizer, train_tokenizer
lines = read_lines('text.txt')
assert lines == ['\\u201f\\u00e9\\u4e2d\\U0001f600', 'b'], ascii(lines)
for kind in ('words', 'characters', 'bpe'):
    made = train_tokenizer(kind, lines, 29)
    made.save(kind)
    again = load_tokenizer(kind)
    assert again.decode(again.encode(lines[0]).ids) == lines[0]
"""
    environment = {**os.environ, "PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@needs_shared
def test_real_files_have_their_published_numbers_of_lines():
    counts = {"train": 29_000, "val": 1_014, "test_2016_flickr": 1_000}
    for name, count in counts.items():
        for language in ("en", "de"):
            assert len(read_lines(SHARED / "data" / "multi30k" / f"{name}.{language}.gz")) == count
    assert len(read_lines(SHARED / "data" / "tatoeba" / "cmn.txt")) == 22_075


LONG = "x" * 20_000


@pytest.mark.parametrize(
    "read",
    [
        lambda: read_rows([LONG], 2),
        lambda: _priority(LONG, 1),
        lambda: parse_pharaoh(LONG, first=0),
        lambda: parse_pharaoh(f"0-{'1' * 20_000}", first=0),  # more digits than Python takes
        lambda: normalize("\udc80" + LONG),
    ],
)
def test_what_is_long_is_quoted_by_its_beginning_and_no_number_is_too_long(read):
    with pytest.raises(DataError) as error:
        read()
    assert len(str(error.value)) < 400
