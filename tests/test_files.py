"""Files that appear whole or not at all, also where there is a folder, a link or a pipe."""

import os
import stat
import threading

import pytest

from regard.errors import RunError
from regard.files import read_json, write_atomically


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
