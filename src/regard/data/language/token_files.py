"""Ids on the disk, for more text than memory holds: a folder that is made once, and read through a memory map.

Making it may be killed at any moment: what `state.json` records is whole on the disk, and the next call continues
from there. Only one process makes a folder; others wait for it.
"""

import os
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from filelock import FileLock
from pydantic import BaseModel, ConfigDict, ValidationError

from regard.data.language.held_out import iterate_parts, line_size, require_text, text_size, vocabulary_lines
from regard.data.language.settings import LanguageData
from regard.data.language.stream import TokenStream, line_ids, smallest_id_type
from regard.data.messages import Information
from regard.data.settings import PARTS, Part
from regard.data.text.documents import Line, files_of, origin_of
from regard.data.tokenizers.base import FILE, Tokenizer
from regard.data.tokenizers.factory import load_tokenizer, train_tokenizer
from regard.errors import DataError
from regard.files import sync_folder, write_json
from regard.vocabulary import BEGIN, UNKNOWN

SECONDS = 5.0
"""Between two records of the state."""

_STATE = "state.json"
_DECISIVE = ("fields", "documents", "validation_share", "test_share", "split", "tokenizer", "vocabulary_size",
             "vocabulary_lines", "lower")  # fmt: skip


class _PartState(BaseModel):
    """What a part's file holds."""

    model_config = ConfigDict(extra="forbid")

    pieces: int = 0  # tokens: the file's own name for them
    unknown: int = 0
    texts: int = 0


class _FolderState(BaseModel):
    """The progress of a folder."""

    model_config = ConfigDict(extra="forbid")

    key: dict[str, Any]
    total: int
    tokenizer: str
    lines: int = 0
    parts: dict[Part, _PartState]
    whole: bool = False


def token_files(
    settings: LanguageData, tokenizer: Tokenizer | None, report: Callable[[str], None]
) -> tuple[Tokenizer, dict[Part, TokenStream]]:
    """The three parts of a text from the folder `settings.tokens`, which is made first, or finished.

    Args:
        settings: which text, and where its ids are kept.
        tokenizer: of the run; None: learn one, or take the folder's.
        report: called with messages on the progress.

    Returns:
        The tokenizer, and the streams, which are read from the disk.

    Raises:
        DataError: the folder holds another text, or ids of another tokenizer; a file cannot be read; a part is empty.
    """
    folder = settings.tokens
    assert folder is not None
    state = _load_state(folder, settings) if folder.is_dir() else None
    if state is None or not state.whole:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            state = _make(folder, settings, tokenizer, report)
    kept = load_tokenizer(folder)
    if {kept.fingerprint(), (tokenizer or kept).fingerprint()} != {state.tokenizer}:
        raise _other_vocabulary(folder)
    borders, kind = settings.documents != "running", smallest_id_type(len(kept))
    return kept, {
        name: TokenStream(_memory_map(folder, name, kind, one.pieces), one.unknown, borders)
        for name, one in state.parts.items()
    }


def _make(
    folder: Path, settings: LanguageData, tokenizer: Tokenizer | None, report: Callable[[str], None]
) -> _FolderState:
    """Make the folder, or finish it; to be called by one process at a time."""
    state = _load_state(folder, settings)
    if state is None:
        report(Information(f"{folder}: the text is counted and its vocabulary learned"))
        total = text_size(settings)
        made = tokenizer or train_tokenizer(
            settings.tokenizer, vocabulary_lines(settings, total), settings.vocabulary_size, lower=settings.lower
        )
        made.save(folder)
        parts = {name: _PartState() for name in PARTS}
        state = _FolderState(key=_key(settings), total=total, tokenizer=made.fingerprint(), parts=parts)
        _save_state(folder, state)
    if not state.whole:
        kept = load_tokenizer(folder)
        if kept.fingerprint() != state.tokenizer:
            raise _other_vocabulary(folder)
        _Maker(folder, settings, state, kept, report).make()
    return state


class _Maker:
    """Writes the ids of a text part by part, and now and then its state."""

    def __init__(
        self,
        folder: Path,
        settings: LanguageData,
        state: _FolderState,
        tokenizer: Tokenizer,
        report: Callable[[str], None],
    ) -> None:
        self.folder, self.settings, self.state = folder, settings, state
        self.tokenizer, self.report = tokenizer, report
        self.kind, self.borders = smallest_id_type(len(tokenizer)), settings.documents != "running"
        self.waiting = {name: array("i") for name in PARTS}

    def make(self) -> None:
        """Continue from the recorded state to the end."""
        state, size, done = self.state, line_size(self.settings), 0
        files = {name: self._open_part(name) for name in PARTS}
        try:
            saved = time.monotonic()
            for number, (part, line) in enumerate(iterate_parts(self.settings, state.total)):
                done += size(line)
                if number < state.lines:
                    continue
                self._take(part, line)
                if time.monotonic() - saved >= SECONDS:
                    self._write(files, number + 1)
                    tokens = sum(one.pieces for one in state.parts.values())
                    self.report(
                        Information(f"{self.folder}: {tokens:,} tokens, {min(1.0, done / max(1, state.total)):.0%}")
                    )
                    saved = time.monotonic()
            require_text(self.settings, state.total, {name: self.state.parts[name].texts for name in PARTS})
            for name in PARTS:
                if self.borders and self._count(name):
                    self.waiting[name].append(BEGIN)
            state.whole = True
            self._write(files, state.lines)
        finally:
            for file in files.values():
                file.close()

    def _take(self, part: Part, line: Line) -> None:
        border = self.borders and line.first and self._count(part) > 0
        self.waiting[part].extend(line_ids(line, self.tokenizer, border))
        self.state.parts[part].texts += bool(line.text.strip())

    def _count(self, part: Part) -> int:
        return self.state.parts[part].pieces + len(self.waiting[part])

    def _open_part(self, part: Part) -> BinaryIO:
        """A part's file, without what was written after the state: it may not have come to the disk whole."""
        file = open(_file(self.folder, part), "ab")  # noqa: SIM115 - closed by `make`
        wanted = self.state.parts[part].pieces * self.kind.itemsize
        if file.tell() < wanted:  # to be cut to this length it would be filled with zeros
            raise _damaged(_file(self.folder, part), file.tell(), wanted)
        file.truncate(wanted)
        return file

    def _write(self, files: dict[Part, BinaryIO], lines: int) -> None:
        """First the ids, then the state that counts them."""
        for name, ids in self.waiting.items():
            files[name].write(np.array(ids, self.kind).tobytes())
            files[name].flush()
            os.fsync(files[name].fileno())
            written = self.state.parts[name]
            written.pieces += len(ids)
            written.unknown += ids.count(UNKNOWN)
            del ids[:]
        self.state.lines = lines
        sync_folder(self.folder)
        _save_state(self.folder, self.state)


def _damaged(path: Path, size: int, wanted: int) -> DataError:
    return DataError(f"{path} has {size:,} bytes, not {wanted:,}; delete {path.parent} to make it anew")


def _other_vocabulary(folder: Path) -> DataError:
    return DataError(f"{folder} holds the ids of another vocabulary; name another folder: data.tokens=FOLDER")


def _load_state(folder: Path, settings: LanguageData) -> _FolderState | None:
    """The progress of the folder; None if it is empty."""
    path = folder / _STATE
    if not path.is_file():
        others = [entry.name for entry in folder.iterdir() if entry.name != FILE and not entry.name.startswith(".")]
        if others:
            raise DataError(f"{folder} is no folder of ids, but holds {others[0]}; name another: data.tokens=FOLDER")
        return None
    try:
        state = _FolderState.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise DataError(f"{path} is damaged or of another version; delete the folder to make it anew") from error
    key = _key(settings)
    differing = [name for name in sorted({*key, *state.key}) if key.get(name) != state.key.get(name)]
    if differing:
        raise DataError(
            f"{folder} holds the ids of another text or of other settings ({', '.join(differing)}); name another "
            "folder with data.tokens=FOLDER, or delete it to make it anew"
        )
    return state


def _key(settings: LanguageData) -> dict[str, Any]:
    """All that decides what the ids are, as plain values."""
    origins = {
        name: [list(origin_of(file)) for file in files_of(getattr(settings, name) or [])]
        for name in ("text", "validation", "test")
    }
    return {**{name: getattr(settings, name) for name in _DECISIVE}, **origins}


def _save_state(folder: Path, state: _FolderState) -> None:
    write_json(folder / _STATE, state.model_dump(mode="json"))


def _file(folder: Path, part: Part) -> Path:
    return folder / f"{part}.bin"


def _memory_map(folder: Path, part: Part, kind: np.dtype, tokens: int) -> np.ndarray:
    path = _file(folder, part)
    size = path.stat().st_size if path.is_file() else 0
    if size != tokens * kind.itemsize:
        raise _damaged(path, size, tokens * kind.itemsize)
    return np.memmap(path, kind, mode="r") if tokens else np.zeros(0, kind)
