"""A trained masked language model: texts with gaps in, the same with what is likeliest in them out, in order."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import torch

from regard.data.batching import pad
from regard.data.text.lines import several
from regard.data.text.units import normalize
from regard.data.tokenizers.base import Tokenizer
from regard.data.tokenizers.factory import load_tokenizer
from regard.errors import DataError
from regard.models.text.masked import MaskedLanguageModel
from regard.tasks.core.notes import unknown_words
from regard.tasks.core.predictor import StreamPredictor, inference
from regard.tasks.masked.settings import MaskedSettings
from regard.tasks.views.heads import heads_of, heads_view
from regard.views.view import View
from regard.vocabulary import END, SPECIALS, UNKNOWN

MASK = "[MASK]"
"""How a gap is written in a text."""

_NEWLINE = "↵"


class Gapped(NamedTuple):
    """One line as the model reads it.

    Attributes:
        line: its number, from 1.
        text: as it was given.
        ids, tokens: a line end, the line, a line end; with the model's id for the gaps.
        gaps: where they are.
        note: why it is not filled, or None.
    """

    line: int
    text: str
    ids: list[int]
    tokens: list[str]
    gaps: list[int]
    note: str | None


class Filled(NamedTuple):
    """What the model predicts for one line.

    Attributes:
        line: its number, from 1.
        text: as it was given.
        filled: the text with its gaps filled; as it was given, where it has none or could not be read.
        gaps: of each gap the likeliest tokens, with their probabilities, the likeliest first.
        note: why nothing was filled, or None.
    """

    line: int
    text: str
    filled: str
    gaps: list[dict[str, float]]
    note: str | None


class MaskedPredictor(StreamPredictor[MaskedSettings, Tokenizer, MaskedLanguageModel, str, Gapped, Filled]):
    """A masked language model with its vocabulary."""

    settings_type = MaskedSettings

    @classmethod
    def load_parts(cls, folder: Path) -> Tokenizer:
        """Its vocabulary."""
        return load_tokenizer(folder)

    @classmethod
    def build(cls, settings: MaskedSettings, parts: Tokenizer) -> MaskedLanguageModel:
        """A masked language model with fresh weights."""
        return MaskedLanguageModel(settings.model, len(parts))

    @property
    def tokenizer(self) -> Tokenizer:
        """Its vocabulary."""
        return self.parts

    def fill(self, texts: Sequence[str], *, top: int = 5, batch: int = 64) -> list[Filled]:
        """Each text with its gaps filled, in order; see `stream`."""
        return list(self.stream(several(texts), top=top, batch=batch))

    def stream(
        self, items: Iterable[str], *, top: int = 5, batch: int = 64, chunk: int | None = None, first: int = 1
    ) -> Iterator[Filled]:
        """One answer per line, in order, while the lines are being read: 16 batches at a time are in memory.

        Each gap is filled with its likeliest token, from the rest of the line alone: the other gaps are masked.

        Args:
            items: texts without line breaks, with `[MASK]` for a gap.
            top: tokens to name for each gap.
            batch: lines computed together; changes a probability by no more than float32 rounds.
            chunk: lines read before the first answer comes, 16 batches by default.
            first: the number of the first line.

        Raises:
            DataError: a text is not valid Unicode.
        """
        yield from self.in_batches(self.read_all(items, first), partial(self.answer, top=top), batch, chunk)

    def length(self, item: Gapped) -> int:
        """How many tokens a line has; 0 if it has no gap, or is too long to fill one."""
        return 0 if item.note or not item.gaps else len(item.ids)

    def blank(self, item: Gapped) -> Filled:
        """The line as it was given."""
        return Filled(item.line, item.text, item.text, [], item.note)

    def read(self, given: str, line: int = 1) -> Gapped:
        """A line in tokens, as a line of its own."""
        normal = normalize(given)
        # A character that the text has nowhere else, for private use: a word of its own in every tokenizer.
        hole = next(chr(code) for code in count(0xE000) if chr(code) not in normal)
        encoded = self.tokenizer.encode(normal.replace(MASK, hole))
        ids, tokens = [END], [_NEWLINE]
        for one, token in _pairs(encoded.ids, encoded.tokens):
            is_gap = hole in token
            if is_gap and self.tokenizer.kind == "bpe" and tokens[-1] == " ":
                # A token has the space before it in it, and so has the gap.
                ids.pop()
                tokens.pop()
            ids.append(self.model.mask if is_gap else one)
            tokens.append(MASK if is_gap else token)
        ids.append(END)
        tokens.append(_NEWLINE)
        most, note = self.settings.data.window, None
        if len(ids) > most:
            note = f"{len(ids)} tokens, line ends included, are more than the model's {most}; it is left as it is"
        gaps = [at for at, one in enumerate(ids) if one == self.model.mask]
        return Gapped(line, given, ids, tokens, gaps, note)

    @inference
    def view(self, text: str, language: str = "en") -> View:
        """The attention of each layer and head from each token; the notes say what fills the gaps.

        Raises:
            DataError: the text is empty, or longer than the model's limit.
        """
        line = self.read(text)
        if len(line.ids) == 2 or line.note:
            raise DataError(line.note or "the text is empty: there is nothing to look at")
        attended = self.model.encoder.read(torch.tensor([line.ids], device=self.device)).attended
        notes = []
        if line.gaps:
            [filled] = self.answer([line], top=3)
            notes = [
                f"{MASK} {number}: " + ", ".join(f"{token} {chance:.3f}" for token, chance in gap.items())
                for number, gap in enumerate(filled.gaps, start=1)
            ]
        unknown = [token for one, token in _pairs(line.ids, line.tokens) if one == UNKNOWN]
        return heads_view(heads_of(attended, line.tokens), notes + unknown_words(unknown, language), language)

    @inference
    def answer(self, items: list[Gapped], top: int = 5) -> list[Filled]:
        """The lines of a batch with their gaps filled."""
        ids = pad([one.ids for one in items])[0].to(self.device)
        logits = self.model.logits_at(ids, ids == self.model.mask).double()
        logits[:, : len(SPECIALS)] = -torch.inf  # nothing, an unknown word or a line's end fills no gap in a line
        best = logits.softmax(-1).topk(min(top, logits.shape[-1] - len(SPECIALS)))
        chances, found = iter(best.values.tolist()), iter(best.indices.tolist())
        filled = []
        for one in items:
            gaps = [_named(self.tokenizer, next(found), next(chances)) for _ in one.gaps]
            parts = one.text.split(MASK)
            tokens = [next(iter(gap)) for gap in gaps]
            whole = "".join(part + token for part, token in zip(parts, [*tokens, ""], strict=True))
            filled.append(Filled(one.line, one.text, whole, gaps, None))
        return filled


def _pairs(ids: list[int], tokens: list[str]) -> Iterable[Any]:
    return zip(ids, tokens, strict=True)


def _named(tokenizer: Tokenizer, ids: list[int], chances: list[float]) -> dict[str, float]:
    """Tokens as they are spelt; two that differ in the space before them alone are one, with the chances of both."""
    named: dict[str, float] = {}
    for one, chance in zip(ids, chances, strict=True):
        token = tokenizer.token(one).strip() or tokenizer.token(one)
        named[token] = named.get(token, 0.0) + chance
    return dict(sorted(named.items(), key=lambda item: -item[1]))
