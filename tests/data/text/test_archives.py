import gzip
import tracemalloc
import zipfile

import pytest

from regard.data.pairs.parallel_text import read_tsv
from regard.data.text.lines import iterate_lines, read_lines
from regard.errors import DataError
from tests.shared import SHARED, needs_shared


def pack(path, members, **options):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, **options) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_a_path_continues_inside_an_archive(tmp_path):
    members = {"fra.txt": "\ufeffa\tb\r\n\né\t中\n", "deep/er.txt": "x\n", "packed.gz": gzip.compress(b"y\nz")}
    path = pack(tmp_path / "two words.zip", members)
    assert read_lines(path / "fra.txt") == ["a\tb", "", "é\t中"]
    assert read_lines(f"{path}/deep/er.txt") == ["x"]
    assert read_lines(path / "packed.gz") == ["y", "z"]
    assert [file.name for file in tmp_path.iterdir()] == ["two words.zip"]  # nothing is unpacked to disk
    with pytest.raises(DataError, match=r"words\.zip/fra\.txt, line 2: no tab"):
        read_tsv(path / "fra.txt")


def test_an_archive_named_without_a_member_tells_its_members(tmp_path):
    path = pack(tmp_path / "a.zip", {"folder/": "", **{f"m{number}.txt": "" for number in range(11)}})
    with pytest.raises(
        DataError, match=r"name a file in it, as in .*a\.zip/NAME\. It holds m0\.txt, .*m7\.txt and 3 more"
    ):
        read_lines(path)
    with pytest.raises(DataError, match="It holds no files"):
        read_lines(pack(tmp_path / "empty.zip", {}))


@pytest.mark.parametrize(
    ("member", "message"),
    [
        ("fr.txt", r"holds no file 'fr\.txt'\. Did you mean fra\.txt or .* It holds fra\.txt, d/e\.txt"),
        ("d", r"holds no file 'd'"),
        ("../a.zip", r"holds no file '\.\./a\.zip'"),
    ],
)
def test_no_such_member(tmp_path, member, message):
    path = pack(tmp_path / "a.zip", {"fra.txt": "a", "d/": "", "d/e.txt": "b"})
    with pytest.raises(DataError, match=message):
        read_lines(path / member)


def test_no_archive_and_damaged_ones(tmp_path):
    text = tmp_path / "a.txt"
    text.write_text("a\n")
    with pytest.raises(DataError, match=r"a\.txt is a file and no zip archive"):
        read_lines(text / "b")
    whole = pack(tmp_path / "a.zip", {"b": "abc\n" * 999}).read_bytes()
    (tmp_path / "a.zip").write_bytes(whole[:-30])
    with pytest.raises(DataError, match=r"a\.zip: the zip archive is damaged or cut short"):
        read_lines(tmp_path / "a.zip" / "b")
    start = 30 + len("b")  # the packed bytes begin after the head, whose time may hold any byte, and the name
    (tmp_path / "a.zip").write_bytes(whole[:start] + b"\x00" + whole[start + 1 :])
    with pytest.raises(DataError, match=r"a\.zip/b: the archive is damaged \(.*fetch it again"):
        read_lines(tmp_path / "a.zip" / "b")


@pytest.mark.parametrize("packing", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_whichever_part_of_a_member_is_damaged(tmp_path, packing):
    """The mark of its head, its name there, and the packed bytes: each is told with the member's name."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w", packing) as archive:
        archive.writestr("b", "abc\n" * 999)
    whole = (tmp_path / "a.zip").read_bytes()
    for at, wrong in ((1, b"?"), (30, b"?"), (45, b"\xff" * 3)):
        (tmp_path / "a.zip").write_bytes(whole[:at] + wrong + whole[at + len(wrong) :])
        with pytest.raises(DataError, match=r"a\.zip/b: the archive is damaged \(.*fetch it again"):
            read_lines(tmp_path / "a.zip" / "b")


def test_an_encrypted_member_and_an_unknown_packing(tmp_path):
    whole = bytearray(pack(tmp_path / "a.zip", {"b": "abc"}).read_bytes())
    entry = whole.index(b"PK\x01\x02")  # its entry in the table: flags at 8, method at 10
    locked = whole.copy()
    locked[entry + 8] |= 1
    (tmp_path / "a.zip").write_bytes(locked)
    with pytest.raises(DataError, match=r"a\.zip/b is encrypted"):
        read_lines(tmp_path / "a.zip" / "b")
    whole[entry + 10] = 97
    (tmp_path / "a.zip").write_bytes(whole)
    with pytest.raises(DataError, match=r"a\.zip/b cannot be unpacked: .*unpack it yourself"):
        read_lines(tmp_path / "a.zip" / "b")


def test_memory_does_not_grow_with_the_member(tmp_path):
    path = pack(tmp_path / "a.zip", {"b": ("abcdefg" * 7 + "\n") * 30_011})  # 1.5 MB
    tracemalloc.start()
    assert sum(1 for _ in iterate_lines(path / "b")) == 30_011
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 500_000


@needs_shared
def test_the_pairs_of_tatoeba_as_they_come():
    lines = iterate_lines(SHARED / "data" / "tatoeba" / "fra-eng.zip" / "fra.txt")
    assert next(lines) == "Go.\tVa !"
