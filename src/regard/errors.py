"""The errors that regard raises on purpose, and the words they share.

Each says what was given, what was expected and what to do. The command line prints them without a traceback.
"""

import difflib
from collections.abc import Iterable


class RegardError(Exception):
    """Something the user can mend; the message is complete by itself."""


class ConfigError(RegardError):
    """One or more settings are wrong; all of them are in the message."""


class DataError(RegardError):
    """A file, line or item cannot be used; the message names it."""


class ShapeError(RegardError, ValueError):
    """Tensors do not fit together; the message shows each shape."""


class TooLong(ShapeError):
    """An input has more positions than the model knows; the message says how many it may have."""


class MaskError(RegardError, TypeError):
    """Something was given as a mask that is not one; the message names the fix."""


class SlowPathWarning(UserWarning):
    """A call takes memory of queries × keys; the message names the argument that causes it and what to do."""


class RunError(RegardError):
    """A run folder is missing, damaged or of another kind."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A tail for an error about an unknown name: the nearest known one, then all of them."""
    options = sorted(known)
    close = difflib.get_close_matches(name, options, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"{hint} Known: {', '.join(options)}."


def quoted(text: str, most: int = 60) -> str:
    """What somebody wrote, between quotes, cut where it is too long to stand in an error."""
    return repr(text if len(text) <= most else text[: most - 1] + "…")
