"""A long output that grows item by item, appears when it is whole, and after a kill continues where it was."""

import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Literal

from regard.errors import DataError, RegardError
from regard.files import refuse_folder, sync_folder, write_json
from regard.tasks.core.config import leaves

try:
    import fcntl
except ImportError:  # Windows: two programs that write one file cannot be kept apart
    fcntl = None  # type: ignore[assignment]


class GrowingFile:
    """Writes `OUT.part`, with `OUT.part.json` beside it, which says what it is made from and how much is safely on the
    disk.

    What was kept is on the disk; a kill at any moment costs only what was written since. The next start with the same
    origin continues after what was kept. One with another origin is refused and not started over: hours of work should
    not be lost to a mistyped option.

    Args:
        path: the file; a link stays one, and what it names is written.
        origin: all that decides the content, as plain JSON.

    Attributes:
        items: how many were kept, by an earlier start too.
        marked: how many of them the writer marked.

    Raises:
        DataError: there is a part of another origin, a damaged one, one that another program is writing, or a file of
            that name that is no part.
    """

    def __init__(self, path: str | os.PathLike[str], origin: dict[str, Any]) -> None:
        refuse_folder(path)
        self.path = Path(os.path.realpath(path))
        self.part = self.path.with_name(f"{self.path.name}.part")
        self.state = self.path.with_name(f"{self.path.name}.part.json")
        self.origin: dict[str, Any] = json.loads(json.dumps(origin))
        self.items, self.marked, self._kept = 0, 0, 0
        self._file: BinaryIO | None = None

    def __enter__(self) -> "GrowingFile":
        self.path.parent.mkdir(parents=True, exist_ok=True)
        while not self._open("xb") and not self._open("r+b"):
            pass
        if self.part.stat().st_size:
            self._continue()
        else:  # an empty part has nothing to lose, whatever its state file says
            self._write_state()
        return self

    def write(self, text: str) -> None:
        """Add text; it is safely on the disk after the next `keep`."""
        assert self._file is not None
        self._file.write(text.encode("utf-8"))

    def keep(self, items: int, marked: int) -> None:
        """Bring all that was written so far to the disk: so many items, of which so many are marked."""
        self._sync()
        assert self._file is not None
        self.items, self.marked, self._kept = items, marked, self._file.tell()
        self._write_state()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._file is not None
        if error is None:
            self._sync()
        if fcntl is None:
            self._file.close()  # Windows renames and removes no open file
        # The lock goes last: who opened the part before finds by then that it is gone, see `_open`.
        if error is None:
            os.replace(self.part, self.path)
            self.state.unlink(missing_ok=True)
        elif self.items == 0 or isinstance(error, RegardError):  # which would come again at the same place
            self.part.unlink()
            self.state.unlink(missing_ok=True)
        self._file.close()
        if error is None:
            sync_folder(self.path.parent)

    def _open(self, mode: Literal["xb", "r+b"]) -> bool:
        """Make the part ("xb") or open the one that is there; False if there is one, or none.

        What was opened is ours from the lock on. Until then a program that has it, perhaps since it was made here, may
        come to its end: it is no part any more, and nothing is written to it.
        """
        try:
            self._file = open(self.part, mode)  # noqa: SIM115 - closed on leaving
            self._lock()
            if os.path.samestat(os.fstat(self._file.fileno()), self.part.stat()):
                return True
        except FileExistsError:
            return False
        except FileNotFoundError:
            if self.part.is_symlink():  # to nothing
                raise
        if self._file is not None:
            self._file.close()
        return False

    def _continue(self) -> None:
        assert self._file is not None
        try:
            state = json.loads(self.state.read_text(encoding="utf-8"))
            then = dict(leaves(state["origin"]))
            items, marked, kept = (int(state[key]) for key in ("items", "marked", "bytes"))
        except FileNotFoundError as error:
            raise self._refused(f"{self.part} is there without {self.state.name}, which says what it is") from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise self._refused(f"{self.state} is damaged ({type(error).__name__}: {error})") from error
        now = dict(leaves(self.origin))
        differing = sorted(key for key in then.keys() | now.keys() if then.get(key) != now.get(key))
        if differing:
            raise self._refused(
                f"{self.part} holds {items:,} lines of another call, which had another {', another '.join(differing)}. "
                "To continue them call it as before"
            )
        if self.part.stat().st_size < kept:
            raise self._refused(f"{self.part} is shorter than {self.state.name} says")
        self._file.truncate(kept)
        self._file.seek(kept)
        self.items, self.marked, self._kept = items, marked, kept

    def _refused(self, why: str) -> DataError:
        if self._file is not None:
            self._file.close()
        return DataError(f"{why}; to start over delete {self.part} and {self.state.name}, or name another output")

    def _lock(self) -> None:
        assert self._file is not None
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._file.close()
            raise DataError(f"{self.part} is being written by another program; wait for it or end it") from error

    def _sync(self) -> None:
        assert self._file is not None
        self._file.flush()
        os.fsync(self._file.fileno())

    def _write_state(self) -> None:
        state = {"items": self.items, "marked": self.marked, "bytes": self._kept, "origin": self.origin}
        write_json(self.state, state)
