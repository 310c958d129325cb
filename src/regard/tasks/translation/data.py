"""Pairs of sentences as a run needs them: tokenizers, batches to train on, and pairs held out."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from regard.data.pairs.parallel_text import Pair
from regard.data.tokenizers.base import Tokenizer
from regard.data.tokenizers.factory import load_tokenizer
from regard.data.translation.batches import TextBatch, TextBatches
from regard.data.translation.corpus import encode_pairs, make_tokenizers, read_training
from regard.errors import DataError
from regard.tasks.core.task import Prepared
from regard.tasks.translation.settings import TranslationSettings

SOURCE, TARGET = "source", "target"
"""The tokenizers' folders within a run's `tokenizers/`."""

TRAINING = "training"


class Tokenizers(NamedTuple):
    """The tokenizers of both sides; the same object where the vocabulary is shared."""

    source: Tokenizer
    target: Tokenizer

    def save(self, folder: Path) -> None:
        """Write them into a folder each."""
        self.source.save(folder / SOURCE)
        self.target.save(folder / TARGET)

    @classmethod
    def load(cls, folder: Path) -> "Tokenizers":
        """Read what `save` wrote."""
        return cls(load_tokenizer(folder / SOURCE), load_tokenizer(folder / TARGET))


class HeldOutPairs(NamedTuple):
    """The pairs that choose a checkpoint, as text and as batches."""

    pairs: list[Pair]
    batches: TextBatches


Corpus = Prepared[Tokenizers, TextBatch, HeldOutPairs]
"""A run's text, ready to train on."""


def prepare_corpus(settings: TranslationSettings, saved: Path | None, say: Callable[[str], None]) -> Corpus:
    """Read the pairs, learn or load the tokenizers, and make batches.

    Args:
        settings: the run's.
        saved: where the run keeps its tokenizers, if it has them already.
        say: called with a message on pairs that are left out or cut.

    Raises:
        DataError: a file cannot be read, or nothing is left to train on or to hold out.
    """
    training, validation = held_apart(settings)
    if saved is None:
        tokenizers = Tokenizers(*make_tokenizers(settings.data, training))
    else:
        tokenizers = Tokenizers.load(saved)

    def batches(name: str, pairs: Sequence[Pair]) -> TextBatches:
        data = settings.data
        guided = settings.guided_alignment > 0
        kept = encode_pairs(pairs, *tokenizers, max_length=data.max_length, on_long=data.on_long, with_links=guided)
        if kept.empty or kept.dropped or kept.cut:
            say(f"{name}: {kept.report()}")
        links = kept.links if any(kept.links) else None
        if guided and links is None and name == TRAINING:
            raise DataError(
                f"guided_alignment is {settings.guided_alignment}, but no training pair has links. Name a file of them "
                "(data.links), or take data.jsonl with links or data.phrases; or leave guided_alignment out"
            )
        return TextBatches(kept.sources, kept.targets, data.tokens, settings.seed, data.bucket, links)

    learned = batches(TRAINING, training)
    return Prepared(tokenizers, learned, HeldOutPairs(validation, batches("validation", validation)))


def held_apart(settings: TranslationSettings) -> tuple[list[Pair], list[Pair]]:
    """The pairs that a run trains on, and those that it holds out."""
    return read_training(settings.data, settings.seed)


def language_of(texts: Sequence[str]) -> str | None:
    """`zh` for texts that are mostly Han characters, whose BLEU counts characters; None for all others."""
    letters = [character for text in texts for character in text if character.isalpha()]
    han = sum("\u4e00" <= character <= "\u9fff" for character in letters)
    return "zh" if 2 * han > len(letters) else None
