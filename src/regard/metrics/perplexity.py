"""How surprised a model is by the next token."""

import math
from collections.abc import Sequence

from regard.errors import DataError


def perplexity(log_probabilities: Sequence[float], tokens: Sequence[int]) -> float:
    """exp(−Σ log p / Σ tokens) over a whole file: long lines count for more than short ones.

    Args:
        log_probabilities: of each line, in nats, its end mark included.
        tokens: of each line, the end mark counted and padding not.

    Raises:
        DataError: the numbers of lines differ, or there are no tokens, so there is no mean.
    """
    if len(log_probabilities) != len(tokens):
        raise DataError(
            f"{len(log_probabilities)} log-probabilities, {len(tokens)} token counts: expected one of each a line"
        )
    count = sum(tokens)
    if count <= 0:
        raise DataError("perplexity needs at least one token, and there is none: is the file empty?")
    try:
        return math.exp(-math.fsum(log_probabilities) / count)
    except OverflowError:
        return math.inf
