"""Translations as people use them: texts, tokens, words, and the links between words."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from regard.data.tokenizers.base import Tokenizer
from regard.decoding.outputs import Hypothesis
from regard.decoding.unknown import replace_unknown
from regard.tasks.translation.alignment_view import Alignment
from regard.vocabulary import END, SPECIALS, UNKNOWN


@dataclass(frozen=True)
class Output:
    """One hypothesis as text.

    Attributes:
        text: unknown words are replaced by the source words of most weight; no special token shows in it.
        score: what hypotheses are ranked by.
        log_probability: the sum over its tokens and EOS, in nats.
        finished: whether it ended by itself; if not, it was cut off at its limit.
        ids: of the target vocabulary, without EOS.
        tokens: their spelling, EOS last if it came.
        words: of the text.
        word_of: the word of each token but EOS.
        source_word_of: the word of each source token but EOS.
        alignment: `(tokens, source tokens and EOS)`, the weights; None where the model doesn't attend.
    """

    text: str
    score: float
    log_probability: float
    finished: bool
    ids: list[int]
    tokens: list[str]
    words: list[str]
    word_of: list[int]
    source_word_of: list[int]
    alignment: Tensor | None


@dataclass(frozen=True)
class Translation:
    """What became of one line; the first of its outputs is the best.

    Attributes:
        line: its number, from 1.
        source: as it was given.
        source_tokens: as the model read it, EOS last; empty for an empty line.
        source_words: of the source.
        outputs: best first.
        note: what was done to the line, such as a cut; None if nothing.
    """

    line: int
    source: str
    source_tokens: list[str]
    source_words: list[str]
    outputs: list[Output]
    note: str | None = None

    def shown(self, place: int = 0) -> Alignment:
        """One of the outputs as an alignment with labels."""
        output = self.outputs[place]
        return Alignment(
            source=self.source,
            target=output.text,
            source_tokens=self.source_tokens,
            target_tokens=output.tokens,
            source_words=self.source_words,
            target_words=output.words,
            source_word_of=output.source_word_of,
            target_word_of=output.word_of,
            weights=output.alignment,
            notes=[self.note] if self.note else [],
        )

    def links(self, place: int = 0) -> list[tuple[int, int]]:
        """Links (source word, target word) of one of the outputs, in order."""
        return sorted(self.shown(place).links())

    @property
    def text(self) -> str:
        """Of the best output."""
        return self.outputs[0].text

    @property
    def score(self) -> float:
        """What the best output is ranked by."""
        return self.outputs[0].score

    @property
    def finished(self) -> bool:
        """Whether the best output ended by itself."""
        return self.outputs[0].finished

    @property
    def tokens(self) -> list[str]:
        """The tokens of the best output, EOS last if it came."""
        return self.outputs[0].tokens

    @property
    def alignment(self) -> Tensor | None:
        """The weights of the best output; None where the model does not attend."""
        return self.outputs[0].alignment


def output_of(
    hypothesis: Hypothesis, target: Tokenizer, source_words: Sequence[str], source_word_of: Sequence[int]
) -> Output:
    """A hypothesis as text, with its unknown words replaced through the alignment."""
    ids = hypothesis.ids
    tokens = target.tokens(ids)
    spellings: list[str] = []
    unknown = [number == UNKNOWN for number in ids]
    if hypothesis.alignment is not None and any(unknown):
        tokens_or_copies = replace_unknown(tokens, unknown, hypothesis.alignment, source_words, source_word_of)
        if len(tokens_or_copies) == len(tokens):
            spellings = [copy for copy, missing in zip(tokens_or_copies, unknown, strict=True) if missing]
    text = target.decode(ids, spellings)
    return Output(
        text=text,
        score=hypothesis.score,
        log_probability=hypothesis.log_probability,
        finished=hypothesis.finished,
        ids=list(ids),
        tokens=[*tokens, SPECIALS[END]] if hypothesis.finished else tokens,
        words=target.words(text),
        word_of=_words_of(ids, spellings, text, target),
        source_word_of=list(source_word_of),
        alignment=hypothesis.alignment,
    )


def _words_of(ids: list[int], spellings: list[str], text: str, target: Tokenizer) -> list[int]:
    """The word of each token. The text read again nearly always gives the same tokens; else beginnings are counted."""
    again = target.encode(text)
    if again.ids == ids:
        return again.words
    last = max(0, len(target.words(text)) - 1)
    beginnings = (target.decode(ids[: end + 1], spellings) for end in range(len(ids)))
    return [min(last, max(0, len(target.words(beginning)) - 1)) for beginning in beginnings]
