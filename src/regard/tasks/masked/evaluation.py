"""How well the gaps of a text are filled, and how well counts of the training text alone fill them."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from regard.data.masked.batches import MaskedBatch, read_text, token_stream
from regard.data.masked.settings import TestedMaskedText
from regard.data.text.lines import read_lines
from regard.data.tokenizers.base import Tokenizer
from regard.errors import DataError
from regard.metrics.trigram import Trigrams
from regard.models.text.masked import MaskedLanguageModel
from regard.tasks.core.config import check
from regard.tasks.core.evaluation import Evaluation
from regard.tasks.core.metrics import per_label
from regard.tasks.masked.data import description, gaps
from regard.tasks.masked.predictor import MaskedPredictor
from regard.vocabulary import END, UNKNOWN


def measured(model: MaskedLanguageModel, batches: Iterable[MaskedBatch]) -> dict[str, float]:
    """The share of gaps where the likeliest token is the right one, and −log of the right one's probability, per gap.

    Raises:
        DataError: the text is too short for a gap.
    """
    device = next(model.parameters()).device
    objectives = [model(batch.to(device)) for batch in batches]
    if not any(int(one.count) for one in objectives):
        raise DataError("the text is too short: nothing of it was masked, so that there is nothing to predict")
    return per_label(objectives)


def evaluate_run(filler: MaskedPredictor, run: Path, test: dict[str, Any]) -> Evaluation:
    """Fill the gaps of a text, or of the part that the run held out, and compare with what stood there.

    Args:
        filler: of the run.
        run: its folder.
        test: values of `TestedMaskedText`; {} for what the run held out.

    Raises:
        DataError: a text cannot be read, or nothing of it is masked.
    """
    tested, settings, tokenizer = check(TestedMaskedText, test), filler.settings, filler.tokenizer
    notes: list[str] = []
    try:
        parts = read_text(settings.data)
    except DataError as error:
        if tested.text is None:
            raise
        # A run may be tested where its training text is not; then nothing can be counted for the baselines.
        parts = None
        notes.append(f"no baselines: the text of the training is needed to count, and {error}")
    if tested.text is not None:
        lines = [line for path in tested.text for line in read_lines(path) if line.strip()]
    else:
        assert parts is not None
        lines = parts["test"]
    stream = token_stream(lines, tokenizer)
    batches = gaps(settings, tested.asked, stream, len(tokenizer))
    with torch.no_grad():
        measures = measured(filler.model, batches)
    counted = None if parts is None else token_stream(parts["training"], tokenizer)
    case = ", lower case" if tokenizer.lower else ""
    return Evaluation(
        items=sum(len(batch.targets) for batch in batches),
        unit="gaps",
        measures=measures,
        signatures={
            "accuracy": f"{tokenizer.kind}{case}, of {len(tokenizer):,} entries; "
            f"{description(stream)}, which are never masked; {tested.asked:.0%} of the known "
            f"tokens masked at once, in windows of {settings.data.window}"
        },
        baselines={} if counted is None else baselines(counted, stream, batches, tokenizer),
        baselined="accuracy",
        notes=notes,
    )


def baselines(
    counted: torch.Tensor, stream: torch.Tensor, batches: list[MaskedBatch], tokenizer: Tokenizer
) -> dict[str, float]:
    """How many of the same gaps are filled rightly by counts of the training text alone.

    The trigram model reads the two true tokens on each side of a gap, also where these are masked for the model and
    where they lie beyond its window; beyond the text's ends stand line ends.

    Args:
        counted: the training text.
        stream: the text that is tested.
        batches: its gaps.
        tokenizer: of both.
    """
    trigrams = Trigrams(counted.numpy(), len(tokenizer))
    commonest = Counter(counted[counted != UNKNOWN].tolist()).most_common(1)[0][0]
    ids = [END, END, *stream.tolist(), END, END]
    filled, usual, count = 0, 0, 0
    for batch in batches:
        for first, row in zip(batch.index.tolist(), batch.predicted, strict=True):
            for at in (first + 2 + row.nonzero().flatten()).tolist():
                guess = trigrams.fill((ids[at - 2], ids[at - 1]), (ids[at + 1], ids[at + 2]))
                guess[UNKNOWN] = 0  # never masked
                filled += int(guess.argmax()) == ids[at]
                usual += commonest == ids[at]
                count += 1
    return {"trigrams, both sides known": filled / count, "the most frequent piece": usual / count}
