"""Built loops that are kept: damaged ones are built again, and several processes may build at once."""

import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from regard.kernels.native import compiler
from tests.native import needs_compiler

SOURCE = 'extern "C" int answer() { return 42; }\n'
pytestmark = needs_compiler


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A loop that is built in a moment, and a cache of its own; gives a call that asks as a new process would."""
    (tmp_path / "small.cpp").write_text(SOURCE)
    monkeypatch.setattr(compiler, "SOURCES", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(compiler.SWITCH, raising=False)
    monkeypatch.delenv("CXX", raising=False)

    def ask():
        compiler.library.cache_clear()
        return compiler.library("small")

    yield ask
    compiler.library.cache_clear()


def kept(folder):
    return sorted((folder / "regard").iterdir())


@pytest.mark.parametrize("share", [0, 0.01, 0.3, 0.6, 0.95, 0.9999])
def test_a_loop_that_was_cut_short_is_built_again_and_not_loaded(small, tmp_path, capfd, share):
    """Loaded as it is, one of a third of its length ends the program by a signal."""
    assert small().answer() == 42
    (built,) = kept(tmp_path)
    whole = built.read_bytes()
    built.unlink()  # a file of its own: what is mapped already must stay
    built.write_bytes(whole[: int(share * len(whole))])
    capfd.readouterr()
    assert small().answer() == 42
    announced = capfd.readouterr().err
    assert announced.startswith(f"regard: {built} cannot be used and is built again: it is damaged\n")
    assert "building a faster loop for attention (small)" in announced
    (again,) = kept(tmp_path)
    assert again.read_bytes() == whole
    assert small().answer() == 42 and capfd.readouterr().err == ""


def test_a_file_that_is_no_library_is_built_again_once(small, tmp_path, monkeypatch, capfd):
    """Whole, but of another kind: what the loader says is told. Where building is no help, there is the slow path."""
    assert small() is not None
    (good,) = kept(tmp_path)
    other = tmp_path / "other.so"
    other.write_bytes(b"no library" * 100)
    bad = good.with_name(f"{good.stem.rpartition('-')[0]}-{compiler.digest(other)[:16]}.so")
    good.unlink()
    shutil.copy(other, bad)
    capfd.readouterr()
    assert small().answer() == 42
    assert f"{bad} cannot be used and is built again: {bad}: " in capfd.readouterr().err
    assert kept(tmp_path) == [good]
    good.unlink()
    monkeypatch.setattr(compiler, "_build", lambda *_: other)
    with pytest.warns(RuntimeWarning, match="could not be built"):
        assert small() is None


def test_processes_that_build_at_once_all_have_their_loops(small, tmp_path):
    """Started together in an empty cache, each ends with the loop, and the cache with one whole file."""
    code = (
        "import sys; from pathlib import Path\n"
        "from regard.kernels.native import compiler; compiler.SOURCES = Path(sys.argv[1])\n"
        "print(compiler.library('small').answer())"
    )
    command = [sys.executable, "-W", "error", "-c", code, str(tmp_path)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    for each in started:
        out, err = each.communicate(timeout=120)
        assert (each.returncode, out) == (0, "42\n"), err
    assert [path.suffix for path in kept(tmp_path)] == [".so"]
    assert small().answer() == 42


def test_a_file_that_vanishes_meanwhile_is_no_fault(small, tmp_path, monkeypatch):
    assert small() is not None
    monkeypatch.setattr(compiler, "digest", vanishing(compiler.digest))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert small().answer() == 42


def vanishing(digest):
    """`digest`, whose first file another process removes before it is read."""
    asked: list[Path] = []

    def of(path):
        asked.append(path)
        if len(asked) == 1:
            os.unlink(path)
        return digest(path)

    return of


def test_a_compiler_that_is_named_and_missing_is_reported(small, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler -O1")
    assert small() is None
    assert compiler.how("small") == (
        "by torch's own calls, since no C++ compiler is here (CXX names no-such-compiler -O1, which is none)"
    )
