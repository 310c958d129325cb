"""Alignments as pictures: which source words each target word attended to."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from regard.data.tokenizers.base import visible
from regard.errors import RegardError
from regard.metrics.links import links, merge_to_words
from regard.views.view import Matrix, View

Units = Literal["pieces", "words"]

_NO_WORD = -1
CAME_FROM = {"en": "Where each word came from, judged when it is known", "zh": "知道这个词之后再判断：它来自何处"}
"""Title of posteriors, which stand under the weights."""
_TITLE = {"en": "What the translator attended to", "zh": "译文各处看向原文何处"}


@dataclass(frozen=True)
class Alignment:
    """One sentence, its translation, and the weights between them.

    Attributes:
        source, target: both texts.
        source_tokens, target_tokens: of the weights, EOS included.
        source_words, target_words: of the texts.
        source_word_of, target_word_of: the word of each token but EOS.
        weights: `(target tokens, source tokens)`.
        notes: what was done to the texts.
    """

    source: str
    target: str
    source_tokens: Sequence[str]
    target_tokens: Sequence[str]
    source_words: Sequence[str]
    target_words: Sequence[str]
    source_word_of: Sequence[int]
    target_word_of: Sequence[int]
    weights: Tensor | None
    notes: Sequence[str] = ()

    def matrix(self, units: Units = "pieces", title: str | None = None) -> Matrix:
        """The weights with their labels, and the two texts as a title unless another is given.

        Between words they are summed over a source word's tokens and averaged over a target word's, and EOS is
        left out.

        Raises:
            RegardError: the model has no attention.
        """
        weights = self._weights()
        title = f"{self.source} → {self.target}" if title is None else title
        if units == "pieces":
            rows, columns = map(visible, self.target_tokens), map(visible, self.source_tokens)
            return Matrix(weights, list(rows), list(columns), title)
        return Matrix(self.between_words(), list(self.target_words), list(self.source_words), title)

    def between_words(self) -> Tensor:
        """`(target words, source words)`; a word that was cut off has 0."""
        weights = self._weights()
        rows, columns = weights.shape
        return merge_to_words(
            weights,
            _padded(self.source_word_of, columns),
            _padded(self.target_word_of, rows),
            source_count=len(self.source_words),
            target_count=len(self.target_words),
        )

    def _weights(self) -> Tensor:
        if self.weights is None:
            raise RegardError("this model has no attention (model.attention is none): there is no alignment to show")
        return self.weights

    def links(self) -> frozenset[tuple[int, int]]:
        """(source word, target word): for each target word the source word of highest weight."""
        return frozenset() if self.weights is None else links(self.between_words())


def _padded(word_of: Sequence[int], tokens: int) -> list[int]:
    """EOS is of no word."""
    return [*word_of, *[_NO_WORD] * (tokens - len(word_of))]


def alignment_view(matrices: Sequence[Matrix], notes: Sequence[str] = (), language: str = "en") -> View:
    """Alignments to look at together."""
    return View("alignment", _TITLE[language], matrices, notes, language)
