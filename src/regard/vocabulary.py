"""The four special tokens, the same in every tokenizer, and the one order of a counted vocabulary."""

from collections import Counter

PADDING = 0
UNKNOWN = 1
BEGIN = 2  # BOS: a decoder's first input
END = 3  # EOS: the last target; in running text the end of a line
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
"""How the special ids are shown to people. In a text these are plain characters: no text is ever read as one."""


def most_common(counts: Counter[str], size: int) -> list[str]:
    """The `size` most frequent entries by count, then by text, so that ties never depend on hashes or on line order."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [text for text, _ in ranked[: max(size, 0)]]
