"""Notes of views that several tasks write."""

from collections.abc import Sequence


def unknown_words(spellings: Sequence[str], language: str) -> list[str]:
    """A note of the words that the vocabulary does not have, as they were spelt; none where it has all.

    Args:
        spellings: of these words.
        language: of the note, en or zh.
    """
    said = "Unknown words: " if language == "en" else "未登录词："
    return [said + " ".join(spellings)] if spellings else []
