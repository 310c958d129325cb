"""Ids on the disk: the same as in memory, made once, gone on with after a kill."""

import json

import numpy as np
import pytest

from regard.data.language import token_files as room
from regard.data.language.settings import LanguageData
from regard.data.language.streams import read_streams
from regard.data.tokenizers.factory import train_tokenizer
from regard.errors import DataError

PARTS = ("training", "validation", "test")


class Killed(Exception):
    pass


def silent(message):
    pass


@pytest.fixture
def settings(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": f"w{number % 17} x\ny zork{number}"}) + "\n" for number in range(53)))
    return LanguageData(text=path, documents="marked", vocabulary_size=23, tokens=tmp_path / "ids")


def same(one, other):
    for part in PARTS:
        assert one[part].ids.tolist() == other[part].ids.tolist()
        assert (one[part].unknown, one[part].borders) == (other[part].unknown, other[part].borders)


def test_the_disk_holds_what_memory_would(settings):
    tokenizer, streams = read_streams(settings, None, silent)
    known, wanted = read_streams(settings.model_copy(update={"tokens": None}), None, silent)
    assert tokenizer.fingerprint() == known.fingerprint()
    same(streams, wanted)
    assert isinstance(streams["training"].ids, np.memmap) and streams["training"].ids.dtype == np.uint16
    assert streams["training"].unknown > 0


def test_it_is_made_once(settings, monkeypatch):
    _, first = read_streams(settings, None, silent)
    monkeypatch.setattr(room, "iterate_parts", lambda *given: pytest.fail("read again"))
    monkeypatch.setattr(room, "text_size", lambda *given: pytest.fail("counted again"))
    monkeypatch.setattr(room, "FileLock", lambda *given: pytest.fail("a folder that may only be read is locked"))
    said = []
    same(read_streams(settings, None, said.append)[1], first)
    assert not said


@pytest.mark.parametrize("killed_after", [1, 7, 60, 105])
def test_a_killed_making_continues(settings, monkeypatch, killed_after):
    """K9: what is written down is whole; what was written after it is written again."""
    wanted = read_streams(settings.model_copy(update={"tokens": None}), None, silent)[1]
    monkeypatch.setattr(room, "SECONDS", 0.0)
    said = []

    def kill(message):
        said.append(message)
        if len(said) > killed_after:
            raise Killed

    with pytest.raises(Killed):
        read_streams(settings, None, kill)
    for part in PARTS:  # ids that came to the disk without the state that counts them
        with open(settings.tokens / f"{part}.bin", "ab") as file:
            file.write(b"\xff\xff\xff")
    taken = []
    whole = room.line_ids
    monkeypatch.setattr(room, "line_ids", lambda line, *rest: taken.append(line) or whole(line, *rest))
    monkeypatch.setattr(room, "train_tokenizer", lambda *given, **named: pytest.fail("learned again"))
    same(read_streams(settings, None, silent)[1], wanted)
    assert len(taken) == 2 * 53 - killed_after
    assert "tokens, " in said[-1] and said[-1].endswith("%")


def test_another_text_or_another_vocabulary_is_refused(settings, tmp_path):
    read_streams(settings, None, silent)
    with pytest.raises(DataError, match=r"other settings \(lower\)"):
        read_streams(settings.model_copy(update={"lower": True}), None, silent)
    with pytest.raises(DataError, match="another vocabulary"):
        read_streams(settings, train_tokenizer("words", ["other"], 9), silent)
    settings.text[0].write_text('{"text": "new"}\n')
    with pytest.raises(DataError, match=r"\(text\)"):
        read_streams(settings, None, silent)
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "mine.txt").write_text("mine")
    with pytest.raises(DataError, match="holds mine.txt"):
        read_streams(settings.model_copy(update={"tokens": taken}), None, silent)


def test_damaged_files_are_reported(settings):
    read_streams(settings, None, silent)
    (settings.tokens / "training.bin").write_bytes(b"\x00")
    with pytest.raises(DataError, match="has 1 bytes, not"):
        read_streams(settings, None, silent)
    (settings.tokens / "state.json").write_text("{")
    with pytest.raises(DataError, match="damaged or of another version"):
        read_streams(settings, None, silent)


def test_ids_that_were_lost_after_a_kill_are_not_made_up(settings, monkeypatch):
    monkeypatch.setattr(room, "SECONDS", 0.0)
    said = []

    def kill(message):
        said.append(message)
        if len(said) > 40:
            raise Killed

    with pytest.raises(Killed):
        read_streams(settings, None, kill)
    with open(settings.tokens / "training.bin", "r+b") as file:
        file.truncate(4)
    with pytest.raises(DataError, match="has 4 bytes, not"):
        read_streams(settings, None, silent)


def test_a_part_without_text_is_reported_and_stays_unmade(settings):
    settings.text[0].write_text('{"text": "one"}\n')
    for _ in range(2):
        with pytest.raises(DataError, match="none or blank"):
            read_streams(settings, None, silent)
