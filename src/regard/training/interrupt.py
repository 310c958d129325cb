"""Ctrl-C and SIGTERM: the update in progress is finished and saved, then training stops."""

import signal
import threading
from types import FrameType
from typing import Any

from regard.errors import RegardError


class Interrupted(RegardError):
    """Training was stopped from outside, after its state was saved; the message says how to continue.

    Attributes:
        exit_code: what a program should end with: 130 after Ctrl-C, 143 after SIGTERM.
    """

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + number


class SignalWatch:
    """While entered, SIGINT and SIGTERM only set `received`. The second one ends the program at once, as it always did.

    Signals reach the main thread alone, so elsewhere nothing is watched.
    """

    def __init__(self) -> None:
        self.received = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "SignalWatch":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *error: object) -> None:
        self._restore()

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
