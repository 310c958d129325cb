import zipfile

import pytest

from regard.cli.inputs import lines_of
from regard.errors import DataError


def test_lines_of_a_file_in_an_archive(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("b", "eins\n\nzwei")
    assert list(lines_of(f"{tmp_path}/a.zip/b")) == ["eins", "", "zwei"]
    for name, message in (("a.zip", "name a file in it"), ("a.zip/c", "holds no file 'c'")):
        with pytest.raises(DataError, match=message):
            list(lines_of(f"{tmp_path}/{name}"))
    monkeypatch.chdir(tmp_path)
    assert list(lines_of("and/or")) == ["and/or"]  # a text
