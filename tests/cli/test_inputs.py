import zipfile

import pytest

from regard.cli.inputs import lines_of, refuse_input
from regard.errors import ConfigError, DataError


def test_lines_of_a_file_in_an_archive(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("b", "eins\n\nzwei")
    assert list(lines_of(f"{tmp_path}/a.zip/b")) == ["eins", "", "zwei"]
    for name, message in (("a.zip", "name a file in it"), ("a.zip/c", "holds no file 'c'")):
        with pytest.raises(DataError, match=message):
            list(lines_of(f"{tmp_path}/{name}"))
    monkeypatch.chdir(tmp_path)
    assert list(lines_of("and/or")) == ["and/or"]  # a text


def test_a_mistyped_file_of_a_folder_that_is_there_is_no_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    for name in ("data/test", f"{tmp_path}/test"):
        with pytest.raises(DataError, match="no such file"):
            lines_of(name)
    assert list(lines_of("data /test")) == ["data /test"]


def test_what_is_read_is_not_written_over(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("b", "eins\n")
    (tmp_path / "link").symlink_to(tmp_path / "a.zip")
    for name in ("a.zip", "link"):
        with pytest.raises(ConfigError, match="is the input itself"):
            refuse_input(tmp_path / name, None, "-", "ein Text", f"{tmp_path}/a.zip/b")
    refuse_input(tmp_path / "other", f"{tmp_path}/a.zip/b")
    refuse_input(None, f"{tmp_path}/a.zip/b")
