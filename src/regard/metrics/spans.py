"""How near an answer is to those that are right: exact match and F1 over words, as SQuAD counts them.

Rajpurkar et al. (2016, arXiv 1606.05250), section 6.1: case, the marks of ASCII, the words "a", "an" and "the", and
white space do not count; of several right answers the nearest does. To this is added what text without spaces needs,
and what changes no number of other text: each Han character and each kana is a word, and full-width marks do not count.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence

_MARKS = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")


def counted(text: str) -> list[str]:
    """The words of an answer that are compared."""
    bare = _ARTICLES.sub(" ", text.lower().translate(_MARKS))
    return _WIDE.sub(r" \g<0> ", "".join(one for one in bare if not _wide_mark(one))).split()


def exact(answer: str, right: Sequence[str]) -> bool:
    """Whether an answer is one of the right ones; none at all is "", which is right where nothing else is."""
    return any(counted(answer) == counted(one) for one in right or ("",))


def f1(answer: str, right: Sequence[str]) -> float:
    """The harmonic mean of precision and recall of the words, 0 to 1, against the nearest right answer."""
    return max(_f1(counted(answer), counted(one)) for one in right or ("",))


def _f1(answer: list[str], right: list[str]) -> float:
    if not answer or not right:
        return float(answer == right)
    common = sum((Counter(answer) & Counter(right)).values())
    return 2 * common / (len(answer) + len(right))


def _wide_mark(character: str) -> bool:
    """A mark of Chinese or Japanese type, such as 。 or 「."""
    block = "\u3000" <= character <= "\u303f" or "\uff00" <= character <= "\uffef"
    return block and unicodedata.category(character)[0] in "PZ"
