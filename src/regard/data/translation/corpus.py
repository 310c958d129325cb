"""From settings to encoded pairs: read, hold some out, learn the tokenizers, keep what fits."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from regard.data.chance import Chance
from regard.data.pairs.parallel_text import Pair, read_jsonl, read_pairs, read_tsv
from regard.data.pairs.pharaoh import with_links
from regard.data.synthetic.phrases import phrases
from regard.data.synthetic.reversal import reversal
from regard.data.text.units import normalize, units
from regard.data.tokenizers.base import Tokenizer
from regard.data.tokenizers.factory import train_tokenizer
from regard.data.tokenizers.sentencepiece import SentencePieceTokenizer
from regard.data.translation.guidance import LinkWeights, link_weights
from regard.data.translation.joining import join_pairs
from regard.data.translation.settings import NAMED, CorpusSettings, DataSettings, OnLong
from regard.errors import ConfigError, DataError


def read_corpus(settings: CorpusSettings, seed: int = 0) -> list[Pair]:
    """All pairs of the origin that is named, joined where that is asked for.

    Args:
        settings: what to read.
        seed: draws which pairs are joined; test data keep the 0, so that all runs are measured on the same ones.

    Raises:
        ConfigError: none is.
        DataError: a file or a line of it cannot be used.
    """
    return join_pairs(_read(settings), settings.joined, seed)


def _read(settings: CorpusSettings) -> list[Pair]:
    pairs, most = _whole(settings), settings.most_words
    if most is None:
        return pairs
    return [pair for pair in pairs if _at_most(most, pair.source) and _at_most(most, pair.target)]


def _at_most(most: int, text: str) -> bool:
    # What stands between white space is one word or more, so that most long texts need not be cut into units.
    return len(text.split()) <= most and len(units(normalize(text))) <= most


def _whole(settings: CorpusSettings) -> list[Pair]:
    if settings.source is not None and settings.target is not None:
        return _linked(read_pairs(settings.source, settings.target), settings)
    if settings.tsv is not None:
        return _linked(read_tsv(settings.tsv, settings.separator, settings.columns), settings)
    if settings.jsonl is not None:
        return read_jsonl(settings.jsonl)
    if settings.phrases is not None:
        made = settings.phrases
        return phrases(made.count, made.seed, made.source, made.target)
    if settings.reversal is not None:
        digits = settings.reversal
        return reversal(digits.count, digits.seed, digits.shortest, digits.longest, digits.part)
    raise ConfigError(f"no data is named; give {NAMED}")


def _linked(pairs: list[Pair], settings: CorpusSettings) -> list[Pair]:
    if settings.links is None:
        return pairs
    return with_links(
        pairs,
        settings.links,
        first=settings.links_from,
        counted=settings.links_words,
        target_first=settings.links_reversed,
    )


def read_training(settings: DataSettings, seed: int = 0) -> tuple[list[Pair], list[Pair]]:
    """Training pairs and held-out pairs.

    Where no validation data is named, some training pairs are drawn for it (by the seed) and taken out, all copies of a
    pair with it, so that no pair is in both; joining comes after that.

    Raises:
        DataError: no pairs, or too few to hold some out.
    """
    if settings.validation is not None:
        return read_corpus(settings, seed), read_corpus(settings.validation)
    pairs = _read(settings)
    count = settings.held_out or min(1000, max(1, len(pairs) // 20))
    kept_out: dict[tuple[str, str], Pair] = {}
    for pair in Chance("held out", seed).shuffled(pairs):
        if len(kept_out) == count:
            break
        if pair.source.strip() and pair.target.strip():
            kept_out.setdefault((pair.source, pair.target), pair)
    training = [pair for pair in pairs if (pair.source, pair.target) not in kept_out]
    if len(kept_out) < count or not training:
        usable = len({(pair.source, pair.target) for pair in pairs if pair.source.strip() and pair.target.strip()})
        raise DataError(
            f"{len(pairs)} pairs, {usable} of them different and with words on both sides, are too few to hold {count} "
            "out and train on others; give more, or validation data of its own"
        )
    held_out = sorted(kept_out.values(), key=lambda pair: pair.line)
    return join_pairs(training, settings.joined, seed), join_pairs(held_out, settings.joined)


def make_tokenizers(settings: DataSettings, pairs: Sequence[Pair]) -> tuple[Tokenizer, Tokenizer]:
    """Tokenizers of the source and the target side; one and the same object where the vocabulary is shared."""
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    if settings.sentencepiece_model is not None:
        one: Tokenizer = SentencePieceTokenizer.from_file(settings.sentencepiece_model, lower=settings.lower)
        if settings.sentencepiece_target_model is None:
            return one, one
        return one, SentencePieceTokenizer.from_file(settings.sentencepiece_target_model, lower=settings.lower)
    kind, size = settings.tokenizer, settings.vocabulary_size
    if settings.shared_vocabulary:
        joint = train_tokenizer(kind, [*sources, *targets], size, lower=settings.lower)
        return joint, joint
    source, target = (train_tokenizer(kind, texts, size, lower=settings.lower) for texts in (sources, targets))
    return source, target


@dataclass
class EncodedPairs:
    """Pairs that are fit for training, encoded, and what became of the others.

    Attributes:
        pairs: the pairs kept; `sources` and `targets` hold their ids, in the same order.
        empty: places of pairs left out because a side is empty.
        dropped: places of pairs left out because a side is too long.
        cut: places of pairs kept with a side cut.
        links: of each pair kept, distributed over its tokens; empty unless asked for.
    """

    pairs: list[Pair] = field(default_factory=list)
    sources: list[list[int]] = field(default_factory=list)
    targets: list[list[int]] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)
    links: list[LinkWeights] = field(default_factory=list)

    def report(self) -> str:
        """What became of the pairs, in one line."""
        parts = [f"{len(self.pairs)} pairs kept"]
        for places, what in ((self.empty, "with an empty side left out"), (self.dropped, "too long left out")):
            if places:
                parts.append(f"{len(places)} {what} (first: {places[0]})")
        if self.cut:
            parts.append(f"{len(self.cut)} cut (first: {self.cut[0]})")
        return ", ".join(parts)


def encode_pairs(
    pairs: Sequence[Pair],
    source: Tokenizer,
    target: Tokenizer,
    *,
    max_length: int,
    on_long: OnLong,
    with_links: bool = False,
) -> EncodedPairs:
    """Encode pairs for training. A pair is left out as a whole or not at all.

    Args:
        pairs: any pairs.
        source: tokenizer of the source side.
        target: tokenizer of the target side.
        max_length: tokens of a side at most, EOS counted.
        on_long: "drop" leaves a longer pair out, "cut" shortens the side, "error" stops.
        with_links: keep the pairs' links too, distributed over tokens.

    Raises:
        DataError: a side is too long and `on_long` is "error"; or no pair is left.
    """
    kept = EncodedPairs()
    for pair in pairs:
        encoded = source.encode(pair.source), target.encode(pair.target)
        ids = [side.ids for side in encoded]
        if not (ids[0] and ids[1]):
            kept.empty.append(pair.place)
            continue
        longest = max(map(len, ids)) + 1
        if longest > max_length:
            if on_long == "error":
                raise DataError(f"{pair.place}: {longest} tokens with EOS, at most {max_length} fit (max_length)")
            if on_long == "drop":
                kept.dropped.append(pair.place)
                continue
            kept.cut.append(pair.place)
        kept.pairs.append(pair)
        kept.sources.append(ids[0][: max_length - 1])
        kept.targets.append(ids[1][: max_length - 1])
        if with_links:
            kept.links.append(link_weights(pair, *encoded, most=max_length - 1))
    if not kept.pairs:
        raise DataError(f"no pair is left to train on: {kept.report()} of {len(pairs)} read")
    return kept
