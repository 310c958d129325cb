"""A trained translator: texts in, translations out, each with its alignment."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.data.settings import WordUnit
from regard.data.text.lines import several
from regard.data.text.units import split_words, whitespace_words
from regard.data.tokenizers.base import Tokenizer
from regard.decoding.batches import in_order
from regard.decoding.search import search as search_for
from regard.decoding.settings import SearchSettings
from regard.errors import DataError, RegardError
from regard.models.seq2seq.posterior import posterior as posterior_of
from regard.models.seq2seq.recurrent_decoder import RecurrentDecoder
from regard.models.seq2seq.translators import Model, build_translator
from regard.tasks.core.beam import check_beam
from regard.tasks.core.lines import Line, read_line
from regard.tasks.core.predictor import StreamPredictor, inference
from regard.tasks.translation.alignment_view import CAME_FROM, Alignment, Units, alignment_view
from regard.tasks.translation.data import Tokenizers
from regard.tasks.translation.outputs import Output, Translation, output_of
from regard.tasks.translation.settings import TranslationSettings
from regard.views.view import View
from regard.vocabulary import BEGIN, END, PADDING, SPECIALS


class Reading(NamedTuple):
    """How the model reads a given translation, word by word (teacher forcing).

    Attributes:
        log_probabilities: of each token and of EOS, given all before it, in nats.
        alignment: `(tokens and EOS, source tokens and EOS)`, or None where the model doesn't attend.
        source, target: both sentences.
    """

    log_probabilities: list[float]
    alignment: Tensor | None
    source: Line
    target: Line

    @property
    def log_probability(self) -> float:
        """Of the whole, EOS included, in nats."""
        return sum(self.log_probabilities)

    @property
    def length(self) -> int:
        """How many tokens it has, EOS counted."""
        return len(self.log_probabilities)

    @property
    def tokens(self) -> list[str]:
        """The tokens of the translation, EOS last."""
        return [*self.target.tokens, SPECIALS[END]]

    @property
    def notes(self) -> list[str]:
        """What was done to the two texts."""
        return [note for note in (self.source.note, self.target.note) if note]


class TranslationPredictor(StreamPredictor[TranslationSettings, Tokenizers, Model, str, Line, Translation]):
    """A translator, or several as one, with its tokenizers."""

    settings_type = TranslationSettings

    @classmethod
    def load_parts(cls, folder: Path) -> Tokenizers:
        """The tokenizers of both sides."""
        return Tokenizers.load(folder)

    @classmethod
    def build(cls, settings: TranslationSettings, parts: Tokenizers) -> Any:
        """A translator of the kind that the settings say, with fresh weights: a `Model` that is a Module too."""
        return build_translator(settings.model, len(parts.source), len(parts.target))

    @property
    def source(self) -> Tokenizer:
        """The tokenizer of what is translated."""
        return self.parts.source

    @property
    def target(self) -> Tokenizer:
        """The tokenizer of the translations."""
        return self.parts.target

    def translate(
        self, texts: Sequence[str], search: SearchSettings | None = None, batch: int = 64
    ) -> list[Translation]:
        """One translation per text, in order; see `stream`."""
        return list(self.stream(several(texts), search=search, batch=batch))

    def stream(
        self,
        items: Iterable[str],
        *,
        search: SearchSettings | None = None,
        batch: int = 64,
        chunk: int | None = None,
        first: int = 1,
    ) -> Iterator[Translation]:
        """One translation per line, in order, while the lines are being read: 16 batches at a time are in memory.

        An empty line has an empty translation. A line above the model's limit is cut, and its translation says so.

        Args:
            items: texts without line breaks.
            search: in place of the run's own.
            batch: sentences computed together; never changes a result.
            chunk: lines read before the first translation comes, 16 batches by default.
            first: the number of the first line, where earlier ones are done; a line's number fixes its random draws.

        Raises:
            DataError: a text is not valid Unicode; the message names its line.
            ConfigError: the beam is wider than the target vocabulary, and than 128.
        """
        search = search or self.settings.search
        check_beam(search, len(self.target))
        yield from self.in_batches(self.read_all(items, first), partial(self.answer, search=search), batch, chunk)

    def score(self, sources: Sequence[str], targets: Sequence[str], batch: int = 64) -> list[Reading]:
        """How the model reads given translations; see `readings`."""
        return list(self.readings(zip(several(sources), several(targets), strict=True), batch))

    def readings(
        self,
        pairs: Iterable[tuple[str, str]],
        batch: int = 64,
        chunk: int | None = None,
        posterior: bool = False,
    ) -> Iterator[Reading]:
        """How the model reads given translations, in order, while they come: 16 batches at a time are in memory.

        An empty source is read as EOS alone. A side above the model's limit is cut, and the reading says so.

        Args:
            pairs: a source and its translation each, without line breaks.
            batch: pairs computed together; changes a result by no more than float32 rounds.
            chunk: pairs taken before the first reading comes, 16 batches by default.
            posterior: the alignment says where each word came from, judged when it is known (see `models.posterior`),
                in place of the weights from before the word was known.

        Raises:
            DataError: a text is not valid Unicode.
            RegardError: a posterior is asked for that the model does not have.
        """
        sentences = (
            (self.read(source, line), self.read_target(target, line))
            for line, (source, target) in enumerate(pairs, start=1)
        )

        # No pair is empty: each has at least EOS.
        score = partial(self._score, posterior=posterior)
        yield from in_order(sentences, lambda pair: len(pair[0].ids) + 1, batch, score, empty=_never, chunk=chunk)

    def view(
        self,
        text: str,
        target: str | None = None,
        search: SearchSettings | None = None,
        units: Units = "pieces",
        language: str = "en",
        posterior: bool = False,
    ) -> View:
        """The alignment as a picture: of the translation found, or of a given one, teacher-forced.

        Args:
            text: the source.
            target: a translation to read in place of the model's own.
            search: in place of the run's own.
            units: tokens, with EOS, as the model has them; or words, summed over source tokens and averaged over
                target tokens.
            language: of the words around the numbers, en or zh.
            posterior: beside the weights from before a word was known, where the word came from (`models.posterior`).

        Raises:
            DataError: the source is empty.
            RegardError: the model has no attention, or a posterior is asked for and it has none.
        """
        if not self.read(text).ids:
            raise DataError("the text is empty: there is nothing to look at")
        if target is None:
            found = self.translate([text], search)[0]
            shown = found.shown()
        else:
            shown = self.shown(self.score([text], [target])[0])
        matrices = [shown.matrix(units)]
        if posterior:
            (known,) = self.readings([(text, shown.target)], posterior=True)
            matrices.append(self.shown(known).matrix(units, CAME_FROM[language]))
        return alignment_view(matrices, shown.notes, language)

    def shown(self, reading: Reading, counted: WordUnit = "tokenizer") -> Alignment:
        """A reading as an alignment with labels, between words of the kind that links count."""
        source, target = reading.source, reading.target
        return Alignment(
            source=source.text,
            target=target.text,
            source_tokens=[*source.tokens, SPECIALS[END]],
            target_tokens=reading.tokens,
            source_words=split_words(source.text, counted),
            target_words=split_words(target.text, counted),
            source_word_of=_counted(source, counted),
            target_word_of=_counted(target, counted),
            weights=reading.alignment,
            notes=reading.notes,
        )

    def read(self, given: str, line: int = 1) -> Line:
        """A source line in tokens, cut to the limit that training had."""
        return read_line(self.source, given, line, self.settings.data.max_length, with_eos=True)

    def read_target(self, given: str, line: int = 1) -> Line:
        """A target line in tokens, likewise."""
        return read_line(self.target, given, line, self.settings.data.max_length, with_eos=True)

    def length(self, item: Line) -> int:
        """How many tokens a line has."""
        return len(item.ids)

    def blank(self, item: Line) -> Translation:
        """An empty translation."""
        return _translation(item, [], [Output("", 0.0, 0.0, True, [], [], [], [], [], None)])

    @inference
    def answer(self, items: list[Line], search: SearchSettings | None = None) -> list[Translation]:
        """The translations of a batch of lines, searched for as the run's settings say, or others."""
        source, lengths = self._sources(items)
        found = search_for(
            self.model.decoder,
            self.model.encode(source, lengths),
            len(items),
            begin=BEGIN,
            end=END,
            settings=search or self.settings.search,
            source_lengths=lengths,
            indices=[sentence.line - 1 for sentence in items],
            forbidden=(PADDING, BEGIN),
        )
        translations = []
        for sentence, hypotheses in zip(items, found, strict=True):
            source_words = self.source.words(sentence.text)
            outputs = [output_of(one, self.target, source_words, sentence.words) for one in hypotheses]
            translations.append(_translation(sentence, source_words, outputs))
        return translations

    @inference
    def _score(self, pairs: list[tuple[Line, Line]], posterior: bool) -> list[Reading]:
        source, lengths = self._sources([one for one, _ in pairs])
        targets = [[*other.ids, END] for _, other in pairs]
        wanted = self._padded(targets)
        inputs = torch.cat([wanted.new_full((len(pairs), 1), BEGIN), wanted[:, :-1]], dim=1)
        decoder, memory = self.model.decoder, self.model.encode(source, lengths)
        step = decoder.step(decoder.start(memory, len(pairs)), inputs)
        chosen = step.logits.log_softmax(-1).gather(-1, wanted.unsqueeze(-1)).squeeze(-1).double().cpu()
        if posterior:
            if not isinstance(decoder, RecurrentDecoder):
                raise RegardError(
                    "a posterior is defined for one recurrent translator, which attends to "
                    "the source once for each word; a Transformer attends with every layer and head, "
                    "and an ensemble has no attention of its own. Leave the posterior out, or give one run of a "
                    "recurrent translator"
                )
            weights: Tensor | None = posterior_of(decoder, memory, inputs, wanted).cpu()
        else:
            weights = None if decoder.alignment is None else step.weights(decoder.alignment).cpu()
        readings = []
        for row, (one, other) in enumerate(pairs):
            rows, columns = len(other.ids) + 1, len(one.ids) + 1
            alignment = None if weights is None else weights[row, :rows, :columns]
            readings.append(Reading(chosen[row, :rows].tolist(), alignment, one, other))
        return readings

    def _sources(self, sentences: list[Line]) -> tuple[Tensor, Tensor]:
        """Tokens and EOS of each sentence, padded, and how many they are."""
        ids = [[*sentence.ids, END] for sentence in sentences]
        lengths = torch.tensor([len(one) for one in ids], device=self.device)
        return self._padded(ids), lengths

    def _padded(self, ids: list[list[int]]) -> Tensor:
        longest = max(map(len, ids))
        return torch.tensor([one + [PADDING] * (longest - len(one)) for one in ids], device=self.device)


def _translation(sentence: Line, source_words: list[str], outputs: list[Output]) -> Translation:
    return Translation(
        line=sentence.line,
        source=sentence.text,
        source_tokens=[*sentence.tokens, SPECIALS[END]],
        source_words=source_words,
        outputs=outputs,
        note=sentence.note,
    )


def _counted(sentence: Line, counted: WordUnit) -> list[int]:
    """The word of each token, as links count words."""
    if counted == "tokenizer":
        return sentence.words
    spaced = whitespace_words(sentence.text)
    return [spaced[word] for word in sentence.words]


def _never(pair: tuple[Line, Line]) -> Reading:
    raise AssertionError(f"line {pair[0].line} is never empty: it has at least EOS")
