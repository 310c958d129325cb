"""A file that grows, and continues after a kill: each moment at which it can come."""

import json
import os
import threading

import pytest

from regard.errors import DataError
from regard.tasks.core.growing import GrowingFile

ORIGIN = {"input": "abc", "search": {"beam": 2, "n_best": 1}}


class Killed(BaseException):
    """Stands for a kill: whatever follows in the block does not happen."""


def grow(path, items, stop=None, every=3, origin=ORIGIN):
    """Lines 0, 1, … kept three at a time; gives what was read of an earlier start."""
    with GrowingFile(path, origin) as file:
        before = (file.items, file.marked)
        for item in range(file.items, items):
            if item == stop:
                raise Killed
            file.write(f"line {item} é\n")
            if (item + 1) % every == 0:
                file.keep(item + 1, item // 2)
    return before


@pytest.mark.parametrize("stops", [[0], [2], [3], [5, 7], [8, 8, 10]])
def test_it_continues_and_is_the_same_byte_for_byte(tmp_path, stops):
    path, done = tmp_path / "deep" / "out", 0
    for stop in stops:
        with pytest.raises(Killed):
            grow(path, 11, stop)
        assert not path.exists()
        done = stop // 3 * 3
        assert sorted(os.listdir(path.parent)) == (["out.part", "out.part.json"] if done else [])
    assert grow(path, 11) == (done, (done - 1) // 2 if done else 0)
    assert path.read_text(encoding="utf-8") == "".join(f"line {item} é\n" for item in range(11))
    assert os.listdir(path.parent) == ["out"]


def test_what_was_written_after_the_last_keep_is_written_again(tmp_path):
    with pytest.raises(Killed):
        grow(tmp_path / "out", 11, 5)
    with open(tmp_path / "out.part", "ab") as part:
        part.write(b"half of a li")
    grow(tmp_path / "out", 7)
    assert (tmp_path / "out").read_text(encoding="utf-8").count("\n") == 7


def test_another_origin_a_strange_part_and_damage_are_refused(tmp_path):
    with pytest.raises(Killed):
        grow(tmp_path / "out", 11, 5)
    before = (tmp_path / "out.part").read_bytes()
    with pytest.raises(DataError, match=r"3 lines of another call, which had another search\.beam\. To continue"):
        grow(tmp_path / "out", 11, origin={"input": "abc", "search": {"beam": 3, "n_best": 1}})
    (tmp_path / "out.part").write_bytes(before[:9])
    with pytest.raises(DataError, match="shorter than"):
        grow(tmp_path / "out", 11)
    state = json.loads((tmp_path / "out.part.json").read_text())
    (tmp_path / "out.part.json").write_text(json.dumps({**state, "origin": 3}))
    with pytest.raises(DataError, match="is damaged"):
        grow(tmp_path / "out", 11)
    (tmp_path / "out.part.json").unlink()
    with pytest.raises(DataError, match=r"without out\.part\.json"):
        grow(tmp_path / "out", 11)
    assert os.listdir(tmp_path) == ["out.part"]


def test_an_error_that_would_come_again_leaves_nothing(tmp_path):
    with pytest.raises(DataError, match="line 9"), GrowingFile(tmp_path / "out", ORIGIN) as file:
        file.write("a\n")
        file.keep(1, 0)
        raise DataError("line 9")
    assert os.listdir(tmp_path) == []


def test_two_programs_do_not_write_one_file(tmp_path):
    pytest.importorskip("fcntl")
    with GrowingFile(tmp_path / "out", ORIGIN) as file:
        file.write("a\n")
        with pytest.raises(DataError, match="another program"), GrowingFile(tmp_path / "out", ORIGIN):
            pass
    assert (tmp_path / "out").read_text() == "a\n"


def test_a_program_that_ends_meanwhile_is_not_gone_on_after(tmp_path, monkeypatch):
    """Opened as a part, locked as the finished file: that was cut to what had been kept, or refused as strange."""
    fcntl = pytest.importorskip("fcntl")
    path, lock = tmp_path / "out", fcntl.flock
    first = GrowingFile(path, ORIGIN).__enter__()
    first.write("a\n")
    first.keep(1, 0)
    first.write("b\n")

    def late(file, how):
        monkeypatch.setattr(fcntl, "flock", lock)
        first.__exit__(None, None, None)
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with GrowingFile(path, ORIGIN) as second:
        assert second.items == 0 and path.read_text() == "a\nb\n"
        second.write("c\n")
    assert path.read_text() == "c\n" and os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("stop", [None, 5])
def test_a_part_that_another_program_takes_as_it_is_made(tmp_path, monkeypatch, stop):
    """It was written over once it was finished, or begun again behind what had been kept."""
    fcntl = pytest.importorskip("fcntl")
    path, lock = tmp_path / "out", fcntl.flock

    def late(file, how):
        monkeypatch.setattr(fcntl, "flock", lock)
        if stop is None:
            grow(path, 7)
        else:
            with pytest.raises(Killed):
                grow(path, 7, stop)
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with GrowingFile(path, ORIGIN) as second:
        assert second.items == (0 if stop is None else 3)
        second.write("c\n")
    whole = "" if stop is None else "".join(f"line {item} é\n" for item in range(3))
    assert path.read_text(encoding="utf-8") == f"{whole}c\n" and os.listdir(tmp_path) == ["out"]


def test_many_programs_at_once(tmp_path):
    """Two that began at the same moment ended in a FileExistsError, with the state of the wrong one."""
    pytest.importorskip("fcntl")
    together, strange = threading.Barrier(6), []

    def start():
        for number in range(40):
            together.wait()
            try:
                grow(tmp_path / f"out{number}", 7)
            except DataError as error:
                strange.extend([error] if "another program" not in str(error) else [])
            except Exception as error:
                strange.append(error)

    threads = [threading.Thread(target=start) for _ in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not strange
    whole = "".join(f"line {item} é\n" for item in range(7))
    assert [path.read_text(encoding="utf-8") for path in tmp_path.iterdir()] == [whole] * 40


def test_a_start_that_was_killed_at_once_is_begun_again(tmp_path):
    (tmp_path / "out.part").touch()
    assert grow(tmp_path / "out", 4) == (0, 0)
    (tmp_path / "out.part.json").write_text(
        '{"items": 9, "marked": 0, "bytes": 81, "origin": {}}'
    )  # of a finished file
    assert grow(tmp_path / "out", 4) == (0, 0) and os.listdir(tmp_path) == ["out"]
    (tmp_path / "out.part").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError):
        grow(tmp_path / "out", 4)


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").write_text("old\n")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    grow(tmp_path / "link", 1)
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text(encoding="utf-8") == "line 0 é\n"
