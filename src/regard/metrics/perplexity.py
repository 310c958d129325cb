"""Perplexity: how uncertain a model is of the next token."""

import math

from regard.errors import DataError


def perplexity(nats: float, tokens: int) -> float:
    """Exp of the mean loss per token.

    Args:
        nats: −log p (not smoothed), summed over the tokens of a whole file, EOS included.
        tokens: how many; padding is not among them.

    Raises:
        DataError: there were no tokens, so there is no mean.
    """
    if tokens <= 0:
        raise DataError(f"perplexity needs at least one token; {tokens} were counted: is the file empty?")
    try:
        return math.exp(nats / tokens)
    except OverflowError:
        return math.inf
