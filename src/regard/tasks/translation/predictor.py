"""A trained translator: texts in, translations out, each with its alignment."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

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
from regard.tasks.core.config import check
from regard.tasks.core.runs import open_run
from regard.tasks.translation.alignment_view import CAME_FROM, Alignment, Units, alignment_view
from regard.tasks.translation.data import load_tokenizers
from regard.tasks.translation.outputs import Output, Translation, output_of
from regard.tasks.translation.settings import TranslationSettings
from regard.training.run.checkpoint import load_weights
from regard.views.view import View
from regard.vocabulary import BEGIN, END, PADDING, SPECIALS


class Sentence(NamedTuple):
    """One line as the model reads it.

    Attributes:
        line: its number, from 1.
        text: as it was given.
        ids: its pieces, without the end mark; cut to the model's limit.
        pieces: their spelling.
        words: the word of each piece.
        note: what was done to it, or None.
    """

    line: int
    text: str
    ids: list[int]
    pieces: list[str]
    words: list[int]
    note: str | None


class Reading(NamedTuple):
    """How the model reads a given translation, word by word (teacher forcing).

    Attributes:
        log_probabilities: of each piece and of the end mark, given all before it, in nats.
        alignment: `(pieces and end mark, source pieces and end mark)`, or None where the model doesn't attend.
        source, target: both sentences.
    """

    log_probabilities: list[float]
    alignment: Tensor | None
    source: Sentence
    target: Sentence

    @property
    def log_probability(self) -> float:
        """Of the whole, its end mark included, in nats."""
        return sum(self.log_probabilities)

    @property
    def tokens(self) -> int:
        """How many pieces it has, the end mark counted."""
        return len(self.log_probabilities)

    @property
    def pieces(self) -> list[str]:
        """The pieces of the translation, its end mark last."""
        return [*self.target.pieces, SPECIALS[END]]

    @property
    def notes(self) -> list[str]:
        """What was done to the two texts."""
        return [note for note in (self.source.note, self.target.note) if note]


class Translator:
    """A translator with its tokenizers.

    Args:
        model: in eval mode from here on, but where training validates it and puts its mode back.
        source, target: its tokenizers.
        settings: those of its run.
    """

    def __init__(self, model: Model, source: Tokenizer, target: Tokenizer, settings: TranslationSettings) -> None:
        model.eval()
        self.model = model
        self.source, self.target = source, target
        self.settings = settings

    def translate(
        self, texts: Sequence[str], search: SearchSettings | None = None, batch: int = 64
    ) -> list[Translation]:
        """One translation a text, in order; see `stream`."""
        return list(self.stream(several(texts), search, batch))

    def stream(
        self,
        lines: Iterable[str],
        search: SearchSettings | None = None,
        batch: int = 64,
        chunk: int | None = None,
        first: int = 1,
    ) -> Iterator[Translation]:
        """One translation a line, in order, while the lines are being read: 16 batches at a time are in memory.

        An empty line has an empty translation. A line above the model's limit is cut, and its translation says so.

        Args:
            lines: texts without line breaks.
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
        sentences = (self.read_source(text, line) for line, text in enumerate(lines, start=first))

        def run(sentences: list[Sentence]) -> list[Translation]:
            return self._search(sentences, search)

        yield from in_order(sentences, lambda one: len(one.ids), batch, run, empty=_empty, chunk=chunk)

    def score(self, sources: Sequence[str], targets: Sequence[str], batch: int = 64) -> list[Reading]:
        """How the model reads given translations; see `read`."""
        return list(self.read(zip(several(sources), several(targets), strict=True), batch))

    def read(
        self,
        pairs: Iterable[tuple[str, str]],
        batch: int = 64,
        chunk: int | None = None,
        posterior: bool = False,
    ) -> Iterator[Reading]:
        """How the model reads given translations, in order, while they come: 16 batches at a time are in memory.

        An empty source is read as its end mark alone. A side above the model's limit is cut, and the reading says so.

        Args:
            pairs: a source and its translation each, without line breaks.
            batch: pairs computed together; changes a result by no more than float32 rounds.
            chunk: pairs taken before the first reading comes, 16 batches by default.
            posterior: the alignment says where each word came from, judged when it is known (see `models.posterior`),
                in place of where the model looked before it knew it.

        Raises:
            DataError: a text is not valid Unicode.
            RegardError: a posterior is asked for that the model does not have.
        """
        sentences = (
            (self.read_source(source, line), self.read_target(target, line))
            for line, (source, target) in enumerate(pairs, start=1)
        )

        def score(pairs: list[tuple[Sentence, Sentence]]) -> list[Reading]:
            return self._score(pairs, posterior)

        # No pair is empty: each has at least its end mark.
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
        """The alignment as a picture: of the translation found, or of a given one as the model reads it.

        Args:
            text: the source.
            target: a translation to read in place of the model's own.
            search: in place of the run's own.
            units: pieces, with end marks, as the model has them; or words, summed over source pieces and averaged over
                target pieces.
            language: of the words around the numbers, en or zh.
            posterior: beside where it looked before a word was known, where the word came from (`models.posterior`).

        Raises:
            DataError: the source is empty.
            RegardError: the model has no attention, or no posterior that is asked for.
        """
        if not self.read_source(text).ids:
            raise DataError("the text is empty: there is nothing to look at")
        if target is None:
            found = self.translate([text], search)[0]
            shown = found.shown()
        else:
            shown = self.shown(self.score([text], [target])[0])
        matrices = [shown.matrix(units)]
        if posterior:
            (known,) = self.read([(text, shown.target)], posterior=True)
            matrices.append(self.shown(known).matrix(units, CAME_FROM[language]))
        return alignment_view(matrices, shown.notes, language)

    def shown(self, reading: Reading, counted: WordUnit = "tokenizer") -> Alignment:
        """A reading as an alignment with labels, between words of the kind that links count."""
        source, target = reading.source, reading.target
        return Alignment(
            source=source.text,
            target=target.text,
            source_pieces=[*source.pieces, SPECIALS[END]],
            target_pieces=reading.pieces,
            source_words=split_words(source.text, counted),
            target_words=split_words(target.text, counted),
            source_word_of=_counted(source, counted),
            target_word_of=_counted(target, counted),
            weights=reading.alignment,
            notes=reading.notes,
        )

    def read_source(self, text: str, line: int = 1) -> Sentence:
        """A source line in pieces, cut to the limit that training had."""
        return self._read(self.source, text, line)

    def read_target(self, text: str, line: int = 1) -> Sentence:
        """A target line in pieces, likewise."""
        return self._read(self.target, text, line)

    def _read(self, tokenizer: Tokenizer, text: str, line: int) -> Sentence:
        encoded = tokenizer.encode(text)
        most = self.settings.data.max_length - 1  # the end mark counts
        count = len(encoded.ids)
        note = None
        if count > most:
            note = f"{count} pieces and an end mark are more than the model's {most + 1}; the line is cut after {most}"
        return Sentence(line, text, encoded.ids[:most], encoded.tokens[:most], encoded.words[:most], note)

    @torch.no_grad()
    def _search(self, sentences: list[Sentence], search: SearchSettings) -> list[Translation]:
        source, lengths = self._sources(sentences)
        self.model.eval()
        found = search_for(
            self.model.decoder,
            self.model.encode(source, lengths),
            len(sentences),
            begin=BEGIN,
            end=END,
            settings=search,
            source_lengths=lengths,
            indices=[sentence.line - 1 for sentence in sentences],
            forbidden=(PADDING, BEGIN),
        )
        translations = []
        for sentence, hypotheses in zip(sentences, found, strict=True):
            source_words = self.source.words(sentence.text)
            outputs = [output_of(one, self.target, source_words, sentence.words) for one in hypotheses]
            translations.append(_translation(sentence, source_words, outputs))
        return translations

    @torch.no_grad()
    def _score(self, pairs: list[tuple[Sentence, Sentence]], posterior: bool) -> list[Reading]:
        source, lengths = self._sources([one for one, _ in pairs])
        targets = [[*other.ids, END] for _, other in pairs]
        wanted = self._padded(targets)
        inputs = torch.cat([wanted.new_full((len(pairs), 1), BEGIN), wanted[:, :-1]], dim=1)
        self.model.eval()
        decoder, memory = self.model.decoder, self.model.encode(source, lengths)
        step = decoder.step(decoder.start(memory, len(pairs)), inputs)
        chosen = step.logits.log_softmax(-1).gather(-1, wanted.unsqueeze(-1)).squeeze(-1).double().cpu()
        if posterior:
            if not isinstance(decoder, RecurrentDecoder):
                raise RegardError(
                    "a posterior is of one recurrent translator, whose word comes from one look at the source; a "
                    "Transformer looks with every layer and head, and several runs as one have no look of their own. "
                    "Leave the posterior out, or give one run of a recurrent translator"
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

    def _sources(self, sentences: list[Sentence]) -> tuple[Tensor, Tensor]:
        """Pieces and end mark of each sentence, padded, and how many they are."""
        ids = [[*sentence.ids, END] for sentence in sentences]
        lengths = torch.tensor([len(one) for one in ids], device=self._device)
        return self._padded(ids), lengths

    def _padded(self, ids: list[list[int]]) -> Tensor:
        longest = max(map(len, ids))
        return torch.tensor([one + [PADDING] * (longest - len(one)) for one in ids], device=self._device)

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device


def load_translator(folder: str | Path) -> Translator:
    """The translator of a run folder, with its best weights.

    Raises:
        RunError: there is no run, or no weights yet, or they are damaged.
        ConfigError: the run's settings cannot be used.
    """
    run = open_run(folder)
    settings = check(TranslationSettings, run.read_config())
    source, target = load_tokenizers(run.tokenizers)
    model = build_translator(settings.model, len(source), len(target))
    load_weights(model, run.weights)
    return Translator(model, source, target, settings)


def _translation(sentence: Sentence, source_words: list[str], outputs: list[Output]) -> Translation:
    return Translation(
        line=sentence.line,
        source=sentence.text,
        source_pieces=[*sentence.pieces, SPECIALS[END]],
        source_words=source_words,
        outputs=outputs,
        note=sentence.note,
    )


def _counted(sentence: Sentence, counted: WordUnit) -> list[int]:
    """The word of each piece, as links count words."""
    if counted == "tokenizer":
        return sentence.words
    spaced = whitespace_words(sentence.text)
    return [spaced[word] for word in sentence.words]


def _empty(sentence: Sentence) -> Translation:
    return _translation(sentence, [], [Output("", 0.0, 0.0, True, [], [], [], [], [], None)])


def _never(pair: tuple[Sentence, Sentence]) -> Reading:
    raise AssertionError(f"line {pair[0].line} is never empty: it has its end mark")
