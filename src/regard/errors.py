"""The errors that regard raises on purpose, and the words they share.

Each says what was given, what was expected and what to do. The command line prints them without a traceback.
"""

import difflib
from collections.abc import Iterable, Sequence

_KNOWN = 60
"""Names that an error lists; more than any table of regard's own has, but labels and tags of files may be thousands."""


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
    """A tail for an error about an unknown name: the nearest known one, then all of them, or the first of very many."""
    options = sorted(known)
    close = difflib.get_close_matches(name, options, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"{hint} Known: {', '.join(options[:_KNOWN])}{_and_more(len(options) - _KNOWN)}."


def quoted(value: object, most: int = 60) -> str:
    """What somebody gave, as Python writes it (a text between quotes), cut where it is too long for an error."""
    return repr(cut(value, most)) if isinstance(value, str) else cut(repr(value), most)


def a_few(texts: Sequence[str], most: int = 5) -> str:
    """The first of some texts, each quoted, and how many more there are."""
    return ", ".join(quoted(text, 40) for text in texts[:most]) + _and_more(len(texts) - most)


def cut(text: str, most: int) -> str:
    """The text if it has at most so many characters; else its beginning and …, which together have no more.

    What a reader takes for one character, such as a letter and its accent, stays whole.
    """
    if len(text) <= most:
        return text
    from wcwidth import iter_graphemes  # here, since few programs ever come to this line

    end = 0
    for cluster in iter_graphemes(text[:most]):
        if end + len(cluster) >= most:
            break
        end += len(cluster)
    return text[: end or most - 1] + "…"  # a first character of very many marks is cut after all


def _and_more(left: int) -> str:
    return f" and {left:,} more" if left > 0 else ""
