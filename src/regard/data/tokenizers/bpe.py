"""Byte-pair encoding: frequent words stay whole, rare ones are cut into several tokens."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import Regex, models, pre_tokenizers, trainers

from regard.data.text.units import SPACES, UNIT, is_unspaced, word_indices
from regard.data.tokenizers.base import Encoded, Tokenizer
from regard.vocabulary import SPECIALS, UNKNOWN, most_common

# A word takes the one space before it along, so tokens strung together are the text. Marks are words, so no token can
# span them; other white space stands alone.
_PATTERN = Regex(rf" ?(?:{UNIT})|{SPACES}")


class BpeTokenizer(Tokenizer):
    """Byte-pair encoding inside the library's words, spaces attached to what follows: the text comes back exactly.

    Characters that were never seen are unknown, one by one. (Sennrich, Haddow and Birch 2016, "Neural machine
    translation of rare words with subword units".)

    Args:
        tokens: entries by id, after the special ones.
        merges: pairs of tokens, in the order learned.
        lower: whether upper case is folded to lower case.

    Raises:
        ValueError: an entry is named twice.
    """

    kind = "bpe"

    def __init__(self, tokens: Iterable[str], merges: Iterable[Sequence[str]], lower: bool = False) -> None:
        super().__init__(lower)
        self._tokens = [*SPECIALS, *tokens]
        self.merges = [(left, right) for left, right in merges]
        # The special entries are in the model's table alone, not in the library's list of tokens to look for in a text.
        table = {token: number for number, token in enumerate(self._tokens)}
        if len(table) != len(self._tokens):
            raise ValueError("a vocabulary names an entry twice")
        self._model = _pipeline(
            models.BPE(vocab=table, merges=self.merges, unk_token=SPECIALS[UNKNOWN], fuse_unk=False)
        )

    @classmethod
    def train(cls, texts: Iterable[str], size: int, *, lower: bool = False) -> "BpeTokenizer":
        """Learn the merges from texts, up to `size` entries with the four special ones."""
        reader = cls((), (), lower)
        lines = [_with_space(reader.normalize(text)) for text in texts]
        # The library breaks ties between rare characters by chance where not all fit; so they are chosen here.
        alphabet = most_common(Counter(character for line in lines for character in line), size - len(SPECIALS))
        trainer = trainers.BpeTrainer(
            vocab_size=size - len(SPECIALS),
            initial_alphabet=alphabet,
            limit_alphabet=len(alphabet),
            show_progress=False,
        )
        pipeline = _pipeline(models.BPE())
        pipeline.train_from_iterator(lines, trainer)
        learned = json.loads(pipeline.to_str())["model"]
        return cls(sorted(learned["vocab"], key=learned["vocab"].get), learned["merges"], lower)

    @classmethod
    def load(cls, folder: Path, state: dict[str, Any]) -> "BpeTokenizer":
        """The tokenizer of a saved state."""
        return cls(state["pieces"], state["merges"], state["lower"])

    def state(self) -> dict[str, Any]:
        """All that makes this tokenizer, as JSON: entries, and merges in the order learned."""
        return {"pieces": self._tokens[len(SPECIALS) :], "merges": [list(merge) for merge in self.merges]}

    def __len__(self) -> int:
        return len(self._tokens)

    def token(self, number: int) -> str:
        """What an id stands for."""
        return self._tokens[number]

    def _encode(self, text: str) -> Encoded:
        text = _with_space(text)
        found = self._model.encode(text, add_special_tokens=False)
        return Encoded(found.ids, [text[start:end] for start, end in found.offsets], word_indices(found.offsets, text))

    def _join(self, ids: list[int], spelling: dict[int, str]) -> str:
        parts = []
        for place, number in enumerate(ids):
            parts.append(spelling[place] if number == UNKNOWN else self._tokens[number])
        return "".join(parts).removeprefix(" ")


def _pipeline(model: models.Model) -> tokenizers.Tokenizer:
    pipeline = tokenizers.Tokenizer(model)
    pipeline.pre_tokenizer = pre_tokenizers.Split(_PATTERN, "isolated")
    return pipeline


def _with_space(text: str) -> str:
    """A word has a space before it also at the start of a line, so that it is the same token there; Han has none."""
    return " " + text if text and not is_unspaced(text) else text
