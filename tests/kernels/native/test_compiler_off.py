"""Loops that are switched off, cannot be built, or may be somebody else's: what is said, and that all works."""

import shutil
import warnings

import pytest
import torch

import regard
from regard.attention.explain import explain
from regard.kernels.dot.amx import half
from regard.kernels.native import compiler
from tests.native import needs_compiler


@pytest.fixture
def fresh(monkeypatch):
    """Nothing was built or refused yet, loops are on, and nothing is remembered of what this test does."""
    monkeypatch.delenv(compiler.SWITCH, raising=False)
    remembered = compiler.library, half._is_granted
    for each in remembered:
        each.cache_clear()
    yield
    for each in remembered:
        each.cache_clear()


def test_it_can_be_switched_off(fresh, monkeypatch):
    monkeypatch.setenv(compiler.SWITCH, "0")
    assert compiler.library("additive/additive") is None
    assert "REGARD_COMPILE=0" in compiler.how("additive/additive")


def test_without_a_compiler_nothing_is_said_and_all_works(fresh, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiler.library("additive/additive") is None
    assert "no C++ compiler" in compiler.how("additive/additive")


def test_a_quotation_mark_without_its_partner_is_a_build_that_fails(fresh, monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", "g++ '-O1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.warns(RuntimeWarning, match="could not be built"):
        assert compiler.library("additive/additive") is None
    assert "could not be built" in compiler.how("additive/additive")


def test_a_failed_build_is_reported_with_the_compilers_message(fresh, monkeypatch, tmp_path):
    wrong = tmp_path / "wrong"
    wrong.write_text("#!/bin/sh\necho 'out of ideas' >&2\nexit 1\n")
    wrong.chmod(0o755)
    monkeypatch.setenv("CXX", str(wrong))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.warns(RuntimeWarning, match="could not be built.*out of ideas.*REGARD_COMPILE=0"):
        assert compiler.library("additive/additive") is None
    query, key, value = (torch.randn(2, 512, 64) for _ in range(3))
    made = regard.score("additive", query_dim=64, key_dim=64, hidden_dim=64)
    with pytest.warns(RuntimeWarning, match=r"its loop \(dot/dot\) could not be built"):  # which this call asks for too
        explanation = explain(query, key, value, score=made)
    assert explanation.path == "explicit"
    assert "could not be built" in str(explanation)
    assert [path.name for path in (tmp_path / "regard").iterdir()] == []


def test_nothing_is_run_that_others_may_have_written(fresh, monkeypatch, tmp_path):
    """A cache that all can write to, or one beside the work at hand, could hold anybody's code."""
    (tmp_path / "regard").mkdir()
    (tmp_path / "regard").chmod(0o777)
    monkeypatch.setenv("CXX", "true")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.warns(RuntimeWarning, match="others can write to"):
        assert compiler.library("additive/additive") is None
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")  # no absolute path: its specification leaves it out
    monkeypatch.setenv("HOME", str(tmp_path))
    assert compiler._folder() == tmp_path / ".cache" / "regard"
    monkeypatch.setenv("HOME", "here")
    with pytest.raises(OSError, match="no home folder"):
        compiler._folder()


@needs_compiler
def test_it_is_built_once_and_announced(fresh, monkeypatch, tmp_path, capfd):
    """Of sources that nobody edits meanwhile: a changed header would be a reason to build again."""
    for folder in ("additive", "native"):
        shutil.copytree(compiler.SOURCES / folder, tmp_path / folder)
    monkeypatch.setattr(compiler, "SOURCES", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert compiler.library("additive/additive") is not None
    assert "building a faster loop" in capfd.readouterr().err
    compiler.library.cache_clear()
    assert compiler.library("additive/additive") is not None
    assert capfd.readouterr().err == ""
    assert [path.suffix for path in (tmp_path / "regard").iterdir()] == [".so"]
