"""Unknown-word replacement: the source word with the most attention is copied as it was typed."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from torch import Tensor

from regard.errors import ShapeError


def replace_unknown(
    words: Sequence[str],
    unknown: Sequence[bool],
    alignment: Float[Tensor, "rows columns"],
    source_words: Sequence[str],
    source_of: Sequence[int] | None = None,
) -> list[str]:
    """Replace each unknown output word by the source word with the most attention (Luong et al. 2015, § 4.1's device).

    Only real source words are candidates: never EOS, padding or another marker. Of equal ones the first is
    taken. A source without words leaves nothing to copy, so the unknown word is dropped.

    Args:
        words: the output.
        unknown: which of them are unknown.
        alignment: at least one row per word, e.g. `Hypothesis.alignment` with its EOS row; at least one column for
            each source token.
        source_words: the source as it was typed.
        source_of: for each column the number of its source word, −1 for none; columns beyond it belong to no word. The
            weights of a word's tokens are added. By default column i is word i.

    Raises:
        ShapeError: the alignment has too few rows or columns, or `source_of` names a word that is not there.
    """
    columns = list(range(len(source_words))) if source_of is None else list(source_of)
    rows, width = alignment.shape
    if len(unknown) != len(words) or rows < len(words) or width < len(columns):
        raise ShapeError(
            f"{len(words)} words with {len(unknown)} unknown-marks and {len(columns)} source columns do not fit an "
            f"alignment of shape ({rows}, {width}): it needs a row per word and a column per source token"
        )
    if columns and max(columns) >= len(source_words):
        raise ShapeError(f"a column belongs to source word {max(columns)}, but there are {len(source_words)}, from 0")
    weights = alignment.detach().cpu().double().numpy()
    output = []
    for row, (word, missing) in enumerate(zip(words, unknown, strict=True)):
        if not missing:
            output.append(word)
        elif source_words:
            mass = np.zeros(len(source_words))
            for column, source in enumerate(columns):
                if source >= 0:
                    mass[source] += weights[row, column]
            output.append(source_words[int(mass.argmax())])
    return output
