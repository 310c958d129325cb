"""What hypotheses are compared by: s(Y, X) = log P(Y|X) / lp(Y) + β cp(X; Y), Wu et al. 2016, eq. 14."""

from typing import Any

import numpy as np

from regard.decoding.settings import SearchSettings

LEAST_MASS = 1e-6  # the least attention mass of a source token, so that its log is finite


def length_norm(length: Any, settings: SearchSettings) -> Any:
    """What divides the log-probability of `length` generated tokens, EOS counted and the prompt not.

    "power": length^p. "gnmt": ((5 + length) / 6)^p, lp(Y) of Wu et al. 2016, eq. 14. Both are 1 where p = 0, and never
    fall as the length grows, which is what `search` builds its stopping rule on. Length 0 is treated as 1.
    """
    base = np.maximum(length, 1) if settings.length_rule == "power" else (5.0 + length) / 6.0
    return np.asarray(base, dtype=np.float64) ** settings.length_penalty


def coverage_term(alignment: np.ndarray) -> float:
    """cp(X; Y) of Wu et al. 2016, eq. 14, without its β: Σ over source tokens of log(min(Σ_t weight, 1)), at most 0.

    Args:
        alignment: `(tokens, source)` with real source tokens only; sums run over the output tokens, so over rows.
            A source token without attention counts as `LEAST_MASS`.
    """
    mass = alignment.sum(axis=0, dtype=np.float64)
    return float(np.log(np.clip(mass, LEAST_MASS, 1.0)).sum())
