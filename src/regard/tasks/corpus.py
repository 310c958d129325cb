"""Pairs of sentences as a run needs them: tokenizers, batches to train on, and pairs held out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.batching import TextBatches
from regard.data.pairs import Pair, read_jsonl, read_pairs, read_tsv
from regard.data.phrases import phrases
from regard.data.sentencepiece import SentencePieceTokenizer
from regard.data.settings import CorpusSettings, DataSettings
from regard.data.tokenizers import Tokenizer, load_tokenizer, train_tokenizer
from regard.errors import ConfigError, DataError
from regard.tasks.settings import TranslationSettings

SOURCE, TARGET = "source", "target"
"""The tokenizers' folders within a run's `tokenizers/`."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Corpus:
    """A run's text, ready to train on.

    Attributes:
        source, target: the tokenizers; the same object where the vocabulary is shared.
        batches: of the training pairs.
        validation: the pairs held out, as text.
        held_out: batches of them.
    """

    source: Tokenizer
    target: Tokenizer
    batches: TextBatches
    validation: list[Pair]
    held_out: TextBatches

    def save(self, folder: Path) -> None:
        """Write the tokenizers."""
        self.source.save(folder / SOURCE)
        self.target.save(folder / TARGET)


def read_corpus(settings: TranslationSettings, saved: Path | None, say: Say) -> Corpus:
    """Read the pairs, learn or load the tokenizers, and make batches.

    Args:
        settings: the run's.
        saved: where the run keeps its tokenizers, if it has them already.
        say: told of pairs that are left out or cut.

    Raises:
        DataError: a file cannot be read, or nothing is left to train on or to hold out.
    """
    data = settings.data
    training, validation = read_split(data)
    if saved is not None:
        source, target = load_tokenizer(saved / SOURCE), load_tokenizer(saved / TARGET)
    else:
        source, target = _tokenizers(data, training)
    return Corpus(
        source=source,
        target=target,
        batches=_batches(training, source, target, settings, "training", say),
        validation=validation,
        held_out=_batches(validation, source, target, settings, "validation", say),
    )


def read_split(data: DataSettings) -> tuple[list[Pair], list[Pair]]:
    """Training pairs and held-out pairs; where no files are given for these, some training pairs, evenly spread.

    Raises:
        ConfigError: no pairs are named.
        DataError: a file cannot be read, or holds too few pairs.
    """
    pairs = read(data)
    if data.validation is not None:
        return pairs, read(data.validation)
    kept = data.held_out or max(1, min(1000, len(pairs) // 20))
    if kept >= len(pairs):
        raise DataError(
            f"there are {len(pairs)} pairs, and {kept} of them are to be held out: none would be left to train on. "
            "Give more pairs, a smaller data.held_out, or files of their own as data.validation"
        )
    chosen = {at * len(pairs) // kept for at in range(kept)}
    return (
        [pair for at, pair in enumerate(pairs) if at not in chosen],
        [pair for at, pair in enumerate(pairs) if at in chosen],
    )


def read(corpus: CorpusSettings) -> list[Pair]:
    """All pairs that the settings name."""
    if corpus.source is not None and corpus.target is not None:
        return read_pairs(corpus.source, corpus.target)
    if corpus.tsv is not None:
        return read_tsv(corpus.tsv)
    if corpus.jsonl is not None:
        return read_jsonl(corpus.jsonl)
    if corpus.phrases is not None:
        chosen = corpus.phrases
        return phrases(chosen.count, chosen.seed, chosen.source, chosen.target)
    raise ConfigError("no pairs are named; give data.source and data.target, data.tsv, data.jsonl or data.phrases")


def _tokenizers(data: DataSettings, training: Sequence[Pair]) -> tuple[Tokenizer, Tokenizer]:
    if data.sentencepiece_model is not None:
        source = SentencePieceTokenizer.from_file(data.sentencepiece_model, lower=data.lower)
        other = data.sentencepiece_target_model
        return source, source if other is None else SentencePieceTokenizer.from_file(other, lower=data.lower)
    sides = [[pair.source for pair in training], [pair.target for pair in training]]
    if data.shared_vocabulary:
        both = train_tokenizer(data.tokenizer, [*sides[0], *sides[1]], data.vocabulary_size, lower=data.lower)
        return both, both
    source, target = (train_tokenizer(data.tokenizer, side, data.vocabulary_size, lower=data.lower) for side in sides)
    return source, target


def _batches(
    pairs: Sequence[Pair], source: Tokenizer, target: Tokenizer, settings: TranslationSettings, name: str, say: Say
) -> TextBatches:
    """Pairs as batches. A pair with an empty side is left out; a long one is treated as `on_long` says, on both sides."""
    data = settings.data
    sources: list[list[int]] = []
    targets: list[list[int]] = []
    empty: list[Pair] = []
    long: list[Pair] = []
    most = data.max_length - 1  # the end mark counts
    for pair in pairs:
        one, other = source.encode(pair.source).ids, target.encode(pair.target).ids
        if not one or not other:
            empty.append(pair)
            continue
        if len(one) > most or len(other) > most:
            if data.on_long == "error":
                lengths = f"{len(one)} source and {len(other)} target pieces"
                raise DataError(
                    f"{pair.place}: {lengths}, but a line may have {most} and its end mark (data.max_length). Shorten "
                    "the line, or choose data.on_long=drop or cut"
                )
            long.append(pair)
            if data.on_long == "drop":
                continue
        sources.append(one[:most])
        targets.append(other[:most])
    done = {"drop": "left out", "cut": "cut", "error": ""}[data.on_long]
    for faulty, what in ((empty, "with an empty side left out"), (long, f"longer than {most} pieces {done}")):
        if faulty:
            count = "1 pair" if len(faulty) == 1 else f"{len(faulty)} pairs"
            say(f"{name}: {count} {what}; the first is {faulty[0].place}")
    if not sources:
        raise DataError(f"{name}: of {len(pairs)} pairs none can be used; give lines with text on both sides")
    return TextBatches(sources, targets, data.tokens, settings.seed, data.bucket)
