"""Lines of text as a model reads them."""

from typing import NamedTuple

from regard.data.tokenizers.base import Tokenizer


class Line(NamedTuple):
    """One line as the model reads it.

    Attributes:
        line: its number, from 1.
        text: as it was given.
        ids: its tokens, without EOS; cut to the model's limit.
        tokens: their spelling.
        words: the word of each token.
        note: what was done to it, or None.
    """

    line: int
    text: str
    ids: list[int]
    tokens: list[str]
    words: list[int]
    note: str | None


def read_line(tokenizer: Tokenizer, text: str, line: int, limit: int, *, with_eos: bool = False) -> Line:
    """A line of text in tokens, cut to the limit that training had.

    Args:
        tokenizer: the model's.
        text: of the line.
        line: its number, from 1.
        limit: tokens that the model reads.
        with_eos: whether EOS follows the tokens and counts towards the limit.

    Raises:
        DataError: the text is not valid Unicode.
    """
    encoded = tokenizer.encode(text)
    most = limit - with_eos
    note = cut_note(len(encoded.ids), "tokens and EOS" if with_eos else "tokens", limit, most)
    return Line(line, text, encoded.ids[:most], encoded.tokens[:most], encoded.words[:most], note)


def cut_note(count: int, what: str, limit: int, kept: int | None = None) -> str | None:
    """The note of a line that is longer than the model's limit; None if it is not.

    Args:
        count: how many of `what` the line has.
        what: in the plural, e.g. "words".
        limit: how many the model reads.
        kept: after how many the line is cut, the limit if not given.
    """
    kept = limit if kept is None else kept
    return f"{count} {what} are more than the model's {limit}; the line is cut after {kept}" if count > kept else None
