"""The task of language: the words so far in, the next one out, with what each word looked back at.

Training reads windows, each from a fresh state: a batch is then all that an update depends on, so that windows can be
shuffled, shared by several processes, and found again by a resumed run bit for bit. A carried state would be one more
thing that changes from step to step, and would tie every row of a batch to one place of the text. Evaluation and
writing do carry the state, through all that was read.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.data.language.settings import TestedText
from regard.data.language.stream import TokenStream, WindowBatch, WindowBatches
from regard.data.language.streams import read_other, read_streams
from regard.data.messages import Information
from regard.data.settings import Part
from regard.data.tokenizers.base import Tokenizer
from regard.data.tokenizers.factory import load_tokenizer
from regard.errors import ConfigError
from regard.layers.objective import Objective
from regard.metrics.perplexity import perplexity
from regard.models.text.language_models import Model
from regard.models.transformer.language import TransformerLanguageModel
from regard.tasks.core.config import check
from regard.tasks.core.evaluation import Evaluation
from regard.tasks.core.settings import Better
from regard.tasks.core.task import Prepared, Task, missing_data
from regard.tasks.language.evaluation import Told, stretch_of, told_by
from regard.tasks.language.predictor import LanguagePredictor
from regard.tasks.language.received import received
from regard.tasks.language.settings import LanguageSettings
from regard.views.view import View

_PLACES = (1, 9, 65, 257)
"""Places in a stretch, from 1, at which the next row of the table begins."""

_SHOWN = 24
"""Pieces that are written to be looked at, unless a number is given."""

_MONITORS: dict[str, Better] = {"loss": "min", "perplexity": "min", "accuracy": "max"}


Text = Prepared[Tokenizer, WindowBatch, TokenStream]
"""A run's text, ready to train on: windows of the training text, and the text that chooses a checkpoint."""


def _data(settings: LanguageSettings, saved: Path | None, say: Callable[[str], None]) -> Text:
    data = settings.data
    known = None if saved is None else load_tokenizer(saved)
    parts: tuple[Part, ...] = ("training", "validation")
    tokenizer, streams = read_streams(data, known, say, parts)
    for part in parts:
        say(Information(f"{part}: {_counted(streams[part])}"))
    batches = WindowBatches(streams["training"].ids, data.window, data.batch, settings.seed)
    return Prepared(tokenizer, batches, streams["validation"])


def _counted(stream: TokenStream) -> str:
    share = stream.unknown / max(1, len(stream.ids))
    return f"{len(stream.ids):,} pieces, line ends among them; {stream.unknown:,} of them unknown ({share:.1%})"


def _loss(settings: LanguageSettings) -> Callable[[nn.Module, WindowBatch], Objective]:
    smoothing, apart = settings.training.smoothing, settings.data.documents == "apart"

    def loss(model: nn.Module, batch: WindowBatch) -> Objective:
        told: Objective = model(batch.ids, smoothing, batch.documents) if apart else model(batch.ids, smoothing)
        return told

    return loss


def _metrics(settings: LanguageSettings, text: Text) -> Callable[[Model], dict[str, float]]:
    def metrics(model: Model) -> dict[str, float]:
        return _measures(told_by(model, text.held_out, settings))

    return metrics


def _measures(told: Told) -> dict[str, float]:
    return {
        "perplexity": perplexity(told.nats, told.pieces),
        "accuracy": told.correct / told.pieces,
        "loss": told.nats / told.pieces,
    }


def _problems(tree: dict[str, Any]) -> list[str]:
    return missing_data(tree, ["text"], "no text to train on. Give data.text=FILE")


def _view(
    writer: LanguagePredictor,
    text: str | None,
    *,
    language: str = "en",
    heads: bool = False,
    steps: bool = False,
    length: int | None = None,
    seed: int | None = None,
) -> View:
    if steps and heads:
        raise ConfigError("--heads and --steps are pictures of their own; give one of them by itself")
    if steps:
        how: dict[str, Any] = {"length": _SHOWN if length is None else length}
        drawn = {"sample": False} if seed is None else {"seed": seed}
        return writer.steps(text or "", language=language, **how, **drawn)
    if text is None:
        raise ConfigError("say what to read: regard show RUN TEXT; or regard show RUN TEXT --steps, to go on with it")
    if length is not None or seed is not None:
        raise ConfigError("--length and --seed are of what is written: they go with --steps")
    return writer.view(text, language, heads)


def _evaluate(writer: LanguagePredictor, run: Path, test: dict[str, Any]) -> Evaluation:
    tested, data = check(TestedText, test), writer.settings.data
    if tested.text is not None:
        stream = read_other(data, tested.text, writer.tokenizer)
    else:
        stream = read_streams(data, writer.tokenizer, _silent, (tested.part,))[1][tested.part]
        if not len(stream):
            raise ConfigError(
                "the run held no text out to test on (data.test_share is 0); name one, or part=validation"
            )
    stretch = stretch_of(writer.settings, tested.stretch)
    told = told_by(writer.model, stream, writer.settings, stretch)
    shares = _received(writer, stream, stretch, tested.received) if tested.received and not told.stopped else None
    rows: list[dict[str, Any]] = []
    places = (1, *tested.edges) if tested.edges else _PLACES
    for first, after in zip(places, (*places[1:], None), strict=True):
        last = None if after is None else after - 1
        some = told.of(first - 1, last)
        if some.pieces:
            row = {"place": _places(first, after), "pieces": some.pieces, **_measures(some)}
            rows.append(row if shares is None else {**row, "received": float(shares[first - 1 : last].mean())})
    stopped = f"{sum(1 for *_, pieces in told.each if pieces) + 1}: {told.stopped}" if told.stopped else ""
    case = ", lower case" if writer.tokenizer.lower else ""
    what = "each document from its beginning, " if data.documents == "apart" else ""
    return Evaluation(
        items=told.pieces,
        unit="pieces",
        measures=_measures(told) if not told.stopped else {},  # of the whole text, or of none of it
        signatures={
            "perplexity": f"{writer.tokenizer.kind}{case}, of {len(writer.tokenizer):,} entries; {_counted(stream)}, "
            f"each told as <unk>; {what}every piece told once, in stretches of {stretch:,} from a fresh state"
        },
        by="place",
        lengths=rows,
        notes=[f"nothing further could be read. Place {stopped}"] if stopped else [],
        stopped=stopped,
    )


def _received(writer: LanguagePredictor, stream: TokenStream, stretch: int, texts: int) -> Tensor:
    """The weight that each place of the first stretches receives from the last ones."""
    model, whole = writer.model, len(stream) // stretch
    if not isinstance(model, TransformerLanguageModel):
        raise ConfigError("received: it is told of a Transformer, which looks at all places; leave it out")
    if whole == 0:
        raise ConfigError(f"received: the text has {len(stream)} pieces, less than one stretch of {stretch}")
    ids = torch.from_numpy(stream.ids[: min(texts, whole) * stretch].astype("int64")).view(-1, stretch)
    return received(model, ids.to(next(model.parameters()).device), min(writer.settings.data.window, stretch)).cpu()


def _silent(message: str) -> None:
    pass


def _places(first: int, after: int | None) -> str:
    if after is None:
        return f"{first}+"
    return str(first) if after == first + 1 else f"{first}–{after - 1}"


TASK = Task(
    settings=LanguageSettings,
    data=_data,
    build=LanguagePredictor.build,
    loss=_loss,
    metrics=_metrics,
    load=LanguagePredictor.load,
    view=_view,
    problems=_problems,
    evaluate=_evaluate,
    monitors=_MONITORS,
)
