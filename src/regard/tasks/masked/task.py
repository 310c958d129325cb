"""The task of masked language: a text with gaps in, what is hidden in them out.

In training what is to be told is hidden in three ways, so that the model trusts no piece that it sees
(`data.masked.settings.Masking`). In a validation or a test every such piece is read as [MASK].
"""

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.data.masked.batches import MaskedBatch, MaskedBatches, read_text, token_stream
from regard.data.masked.settings import NAMED, Masking, TestedMaskedText
from regard.data.messages import Information
from regard.data.text.lines import read_lines
from regard.data.tokenizers.base import Tokenizer
from regard.data.tokenizers.factory import load_tokenizer, train_tokenizer
from regard.errors import ConfigError, DataError
from regard.layers.objective import Objective
from regard.metrics.trigram import Trigrams
from regard.models.text.masked import MaskedLanguageModel
from regard.tasks.core.config import check
from regard.tasks.core.evaluation import Evaluation
from regard.tasks.core.metrics import per_label
from regard.tasks.core.task import Prepared, Task, missing_data
from regard.tasks.masked.predictor import MaskedPredictor
from regard.tasks.masked.settings import MaskedSettings
from regard.views.view import View
from regard.vocabulary import END, UNKNOWN

_SEED = 0
"""Of the gaps of every validation and test, so that all runs are asked the same."""


Text = Prepared[Tokenizer, MaskedBatch, list[MaskedBatch]]
"""A run's text, ready to train on: windows of the training text, and gaps of the text that chooses a checkpoint."""


def _data(settings: MaskedSettings, saved: Path | None, say: Callable[[str], None]) -> Text:
    data = settings.data
    parts = read_text(data)
    if saved is None:
        tokenizer = train_tokenizer(data.tokenizer, parts["training"], data.vocabulary_size, lower=data.lower)
    else:
        tokenizer = load_tokenizer(saved)
    streams = {name: token_stream(parts[name], tokenizer) for name in ("training", "validation")}
    for name, stream in streams.items():
        say(Information(f"{name}: {_counted(stream)}"))
    batches = MaskedBatches(streams["training"], data.window, data.batch, data.masking, len(tokenizer), settings.seed)
    return Prepared(tokenizer, batches, gaps(settings, data.asked, streams["validation"], len(tokenizer)))


def _counted(stream: torch.Tensor) -> str:
    unknown = int((stream == UNKNOWN).sum())
    return f"{len(stream):,} pieces, line ends among them; {unknown:,} of them unknown ({unknown / len(stream):.1%})"


def gaps(settings: MaskedSettings, asked: float, stream: torch.Tensor, vocabulary: int) -> list[MaskedBatch]:
    """A whole text in windows, with every piece that is to be told hidden; the same gaps for the same text."""
    hidden = Masking(share=asked, masked=1.0, replaced=0.0)
    batches = MaskedBatches(stream, settings.data.window, settings.data.batch, hidden, vocabulary, _SEED)
    return batches.whole()


def _loss(settings: MaskedSettings) -> Callable[[nn.Module, MaskedBatch], Objective]:
    smoothing = settings.training.smoothing

    def loss(model: nn.Module, batch: MaskedBatch) -> Objective:
        objective: Objective = model(batch, smoothing)
        return objective

    return loss


def _metrics(settings: MaskedSettings, text: Text) -> Callable[[MaskedLanguageModel], dict[str, float]]:
    def metrics(model: MaskedLanguageModel) -> dict[str, float]:
        return _measured(model, text.held_out)

    return metrics


def _measured(model: MaskedLanguageModel, batches: Iterable[MaskedBatch]) -> dict[str, float]:
    """The share of gaps where the likeliest piece is the right one, and −log of the right one's probability, a gap."""
    device = next(model.parameters()).device
    told = [model(batch.to(device)) for batch in batches]
    if not any(int(one.count) for one in told):
        raise DataError("the text is too short: nothing of it was hidden, so that there is nothing to tell")
    return per_label(told)


def _problems(tree: dict[str, Any]) -> list[str]:
    return missing_data(tree, ("text", "standard_library"), f"no text to train on. Give {NAMED}")


def _view(filler: MaskedPredictor, text: str | None, *, language: str = "en", heads: bool = True) -> View:
    # Of a Transformer encoder the heads are shown in any case: there is nothing else to see.
    if text is None:
        raise ConfigError("say what to read: regard show RUN 'TEXT with [MASK]'")
    return filler.view(text, language)


def _evaluate(filler: MaskedPredictor, run: Path, test: dict[str, Any]) -> Evaluation:
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
        measures = _measured(filler.model, batches)
    counted = None if parts is None else token_stream(parts["training"], tokenizer)
    case = ", lower case" if tokenizer.lower else ""
    return Evaluation(
        items=sum(len(batch.targets) for batch in batches),
        unit="gaps",
        measures=measures,
        signatures={
            "accuracy": f"{tokenizer.kind}{case}, of {len(tokenizer):,} entries; {_counted(stream)}, which are never "
            f"asked for; {tested.asked:.0%} of the known pieces hidden at once, in windows of "
            f"{settings.data.window}"
        },
        baselines={} if counted is None else baselines(counted, stream, batches, tokenizer),
        baselined="accuracy",
        notes=notes,
    )


def baselines(
    counted: torch.Tensor, stream: torch.Tensor, batches: list[MaskedBatch], tokenizer: Tokenizer
) -> dict[str, float]:
    """How many of the same gaps are filled rightly by counts of the training text alone.

    The trigram model sees the true two pieces on each side of a gap, also where these are hidden from the model and
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
                guess[UNKNOWN] = 0  # never asked for
                filled += int(guess.argmax()) == ids[at]
                usual += commonest == ids[at]
                count += 1
    return {"trigrams, both sides known": filled / count, "the most frequent piece": usual / count}


TASK = Task(
    settings=MaskedSettings,
    data=_data,
    build=MaskedPredictor.build,
    loss=_loss,
    metrics=_metrics,
    load=MaskedPredictor.load,
    view=_view,
    problems=_problems,
    evaluate=_evaluate,
)
