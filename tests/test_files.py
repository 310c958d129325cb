"""Files that appear whole or not at all, also where there is a folder, a link or a pipe."""

import errno
import os
import stat
import threading

import pytest

from regard.errors import RunError
from regard.files import read_json, replacing, whole_folder, write_atomically


def test_a_folder_is_not_a_file_to_write(tmp_path):
    with pytest.raises(IsADirectoryError, match="the name of a file") as caught:
        write_atomically(tmp_path, "a")
    assert caught.value.filename == str(tmp_path) and not list(tmp_path.iterdir())


def test_an_error_names_the_file_that_was_asked_for(tmp_path):
    (tmp_path / "file").write_text("a")
    with pytest.raises(OSError) as caught:
        write_atomically(tmp_path / "file" / "below", "b")
    assert caught.value.filename == str(tmp_path / "file" / "below")


def test_a_file_where_a_folder_should_be_is_named(tmp_path):
    (tmp_path / "file").write_text("a")
    with pytest.raises(NotADirectoryError, match="file is a file, not a folder"):
        write_atomically(tmp_path / "file" / "below", "b")
    with pytest.raises(NotADirectoryError):
        write_atomically(tmp_path / "file" / "below" / "deeper", "b")
    assert (tmp_path / "file").read_text() == "a"


@pytest.mark.parametrize(
    "number, name, named",
    [
        (errno.ENOSPC, None, True),  # as the system says it
        (errno.ENOSPC, "other", False),
        (errno.EIO, None, False),
    ],
)
def test_a_full_disk_is_said_of_the_file_and_other_errors_stay_as_they_are(tmp_path, number, name, named):
    path = tmp_path / "file"
    with pytest.raises(OSError) as caught, replacing(path):
        raise OSError(number, "said", name)
    assert (caught.value.errno, caught.value.strerror) == (number, "said")
    assert caught.value.filename == (str(path) if named else name) and not list(tmp_path.iterdir())


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_atomically(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "new"


def test_a_pipe_gets_the_content_and_stays_a_pipe(tmp_path):
    """So does a device: as the superuser, renaming onto /dev/null would replace it for the whole machine."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text(encoding="utf-8")), daemon=True)
    reader.start()
    write_atomically(pipe, "雪\n")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    reader.join(timeout=10)
    assert read == ["雪\n"]


def test_two_that_make_one_folder_do_not_take_each_others_files(tmp_path):
    """The first that is done has it; the other is refused, and says which folder."""
    path = tmp_path / "made"

    def fill(part, content):
        (part / "file").write_text(content)

    def slowly(part):
        fill(part, "slow")
        whole_folder(path, lambda other: fill(other, "quick"))
        assert (part / "file").read_text() == "slow"

    with pytest.raises(OSError) as caught:
        whole_folder(path, slowly)
    assert caught.value.filename == str(path)
    assert (path / "file").read_text() == "quick" and [one.name for one in tmp_path.iterdir()] == ["made"]


def test_a_folder_takes_the_place_of_an_empty_one_and_may_be_read_as_any_other(tmp_path):
    (tmp_path / "plain").mkdir()
    (tmp_path / "made").mkdir()
    whole_folder(tmp_path / "made", lambda part: (part / "file").write_text("a"))
    assert (tmp_path / "made" / "file").read_text() == "a"
    assert (tmp_path / "made").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_what_a_run_keeps_says_what_is_wrong_with_it(tmp_path):
    file = tmp_path / "labels.json"
    with pytest.raises(RunError, match=r"labels\.json is missing: the run does not say which labels there are"):
        read_json(file, list, "which labels there are")
    for damage in ("[1", "7", '{"a": 1', "[" * 100_000):
        file.write_text(damage)
        with pytest.raises(RunError, match=r"labels\.json is damaged: ."):
            read_json(file, list, "which labels there are")
    file.write_text('["é", "中"]', encoding="utf-8")
    assert read_json(file, list, "which labels there are") == ["é", "中"]
