"""The task of language: the words so far in, the next one out, with what each word looked back at.

Training reads windows, each from a fresh state: a batch is then all that an update depends on, so that windows can be
shuffled, shared by several processes, and found again by a resumed run bit for bit. A carried state would be one more
thing that changes from step to step, and would tie every row of a batch to one place of the text. Evaluation and
writing do carry the state, through all that was read.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from regard.data.stream import Stream, WindowBatch, WindowBatches, read_parts, text_of
from regard.data.stream_settings import TestedText
from regard.data.tokenizers import Tokenizer, load_tokenizer, train_tokenizer
from regard.errors import ConfigError
from regard.layers.objective import Objective
from regard.metrics.perplexity import perplexity
from regard.models.language import LanguageModel
from regard.tasks.config import check
from regard.tasks.evaluation import Evaluation
from regard.tasks.language_settings import LanguageSettings
from regard.tasks.reading_through import STRETCH, Told, read_through
from regard.tasks.settings import Better
from regard.tasks.task import Task
from regard.tasks.writer import Writer, load_writer
from regard.views.view import View

_PLACES = (1, 9, 65, 257)
"""Places in a stretch, from 1, at which the next row of the table begins."""

_MONITORS: dict[str, Better] = {"loss": "min", "perplexity": "min", "accuracy": "max"}


@dataclass(frozen=True)
class Text:
    """A run's text, ready to train on.

    Attributes:
        tokenizer: of the text.
        batches: windows of the training text.
        held_out: the text that chooses a checkpoint.
    """

    tokenizer: Tokenizer
    batches: WindowBatches
    held_out: Stream

    def save(self, folder: Path) -> None:
        """Write the vocabulary."""
        self.tokenizer.save(folder)


def _data(settings: LanguageSettings, saved: Path | None, say: Callable[[str], None]) -> Text:
    data = settings.data
    training, validation, _ = read_parts(data)
    if saved is None:
        tokenizer = train_tokenizer(data.tokenizer, training, data.vocabulary_size, lower=data.lower)
    else:
        tokenizer = load_tokenizer(saved)
    streams = [Stream.of(lines, tokenizer) for lines in (training, validation)]
    for name, stream in zip(("training", "validation"), streams, strict=True):
        say(f"{name}: {_counted(stream)}")
    return Text(tokenizer, WindowBatches(streams[0].ids, data.window, data.batch, settings.seed), streams[1])


def _counted(stream: Stream) -> str:
    share = stream.unknown / max(1, len(stream.ids))
    return f"{len(stream.ids):,} pieces, line ends among them; {stream.unknown:,} of them unknown ({share:.1%})"


def _model(settings: LanguageSettings, text: Text) -> LanguageModel:
    return LanguageModel(settings.model, len(text.tokenizer))


def _loss(settings: LanguageSettings) -> Callable[[nn.Module, WindowBatch], Objective]:
    smoothing = settings.training.smoothing

    def loss(model: nn.Module, batch: WindowBatch) -> Objective:
        objective: Objective = model(batch.ids, smoothing)
        return objective

    return loss


def _metrics(settings: LanguageSettings, text: Text) -> Callable[[LanguageModel], dict[str, float]]:
    def metrics(model: LanguageModel) -> dict[str, float]:
        told = read_through(model, text.held_out.ids, settings.data.window)
        return {"loss": told.nats / told.pieces, **_measures(told)}

    return metrics


def _measures(told: Told) -> dict[str, float]:
    return {"perplexity": perplexity(told.nats, told.pieces), "accuracy": told.correct / told.pieces}


def _problems(tree: dict[str, Any]) -> list[str]:
    data = tree.get("data")
    if not isinstance(data, dict) or not data.get("text"):
        return ["data: no text to train on. Give data.text=FILE"]
    return []


def _view(writer: Writer, text: str | None, *, language: str = "en") -> View:
    if text is None:
        raise ConfigError("say what to read: regard show RUN TEXT")
    return writer.view(text, language)


def _evaluate(writer: Writer, run: Path, test: dict[str, Any]) -> Evaluation:
    tested, data = check(TestedText, test), writer.settings.data
    lines = read_parts(data)[2] if tested.text is None else text_of(tested.text)
    stream = Stream.of(lines, writer.tokenizer)
    told = writer.read_through(stream)
    rows: list[dict[str, Any]] = []
    for first, after in zip(_PLACES, (*_PLACES[1:], None), strict=True):
        some = told.of(first - 1, None if after is None else after - 1)
        name = f"{first}+" if after is None else f"{first}–{after - 1}"
        measured = _measures(some) if some.pieces else dict.fromkeys(("perplexity", "accuracy"))
        rows.append({"place": name, "pieces": some.pieces, **measured})
    case = ", lower case" if writer.tokenizer.lower else ""
    return Evaluation(
        items=told.pieces,
        unit="pieces",
        measures=_measures(told),
        signatures={
            "perplexity": f"{writer.tokenizer.kind}{case}, of {len(writer.tokenizer):,} entries; {_counted(stream)}, "
            f"each told as <unk>; read in stretches of {STRETCH:,}"
        },
        by="place",
        lengths=rows,
    )


def _examples(writer: Writer, evaluation: Evaluation) -> View | None:
    return None


TASK = Task(
    name="language",
    verb="write",
    data=_data,
    model=_model,
    loss=_loss,
    metrics=_metrics,
    predict=load_writer,
    view=_view,
    problems=_problems,
    evaluate=_evaluate,
    measures=LanguageSettings.measures,
    examples=_examples,
    monitors=_MONITORS,
)
