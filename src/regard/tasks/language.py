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

from regard.data.settings import Part
from regard.data.stream import Stream, WindowBatch, WindowBatches
from regard.data.stream_settings import TestedText
from regard.data.texts import read_other, read_streams
from regard.data.tokenizers import Tokenizer, load_tokenizer
from regard.errors import ConfigError
from regard.layers.objective import Objective
from regard.metrics.perplexity import perplexity
from regard.models.language_models import Model, build_language_model
from regard.tasks.config import check
from regard.tasks.evaluation import Evaluation
from regard.tasks.language_settings import LanguageSettings
from regard.tasks.reading_through import Told, stretch_of, told_by
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
    known = None if saved is None else load_tokenizer(saved)
    parts: tuple[Part, ...] = ("training", "validation")
    tokenizer, streams = read_streams(data, known, say, parts)
    for part in parts:
        say(f"{part}: {_counted(streams[part])}")
    batches = WindowBatches(streams["training"].ids, data.window, data.batch, settings.seed)
    return Text(tokenizer, batches, streams["validation"])


def _counted(stream: Stream) -> str:
    share = stream.unknown / max(1, len(stream.ids))
    return f"{len(stream.ids):,} pieces, line ends among them; {stream.unknown:,} of them unknown ({share:.1%})"


def _model(settings: LanguageSettings, text: Text) -> Model:
    return build_language_model(settings.model, len(text.tokenizer))


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
    data, model = (part if isinstance(part := tree.get(name), dict) else {} for name in ("data", "model"))
    kind, window = model.get("kind"), data.get("window", 64)
    wrong = []
    if not data.get("text"):
        wrong.append("data: no text to train on. Give data.text=FILE")
    if data.get("documents") == "apart" and kind != "transformer":
        wrong.append(
            "data.documents: a model that carries a state reads on over borders; apart needs model.kind=transformer, "
            "and marked tells any model where documents end"
        )
    context = model.get("context", 512)
    learned = kind == "transformer" and model.get("position") == "learned"
    if learned and isinstance(context, int) and isinstance(window, int) and window > context:
        wrong.append(f"data.window: learned positions end at model.context, {context}; the window is {window}")
    return wrong


def _view(writer: Writer, text: str | None, *, language: str = "en") -> View:
    if text is None:
        raise ConfigError("say what to read: regard show RUN TEXT")
    return writer.view(text, language)


def _evaluate(writer: Writer, run: Path, test: dict[str, Any]) -> Evaluation:
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
    rows: list[dict[str, Any]] = []
    for first, after in zip(_PLACES, (*_PLACES[1:], None), strict=True):
        some = told.of(first - 1, None if after is None else after - 1)
        if some.pieces:
            rows.append({"place": _places(first, after), "pieces": some.pieces, **_measures(some)})
    case = ", lower case" if writer.tokenizer.lower else ""
    what = "each document from its beginning, " if data.documents == "apart" else ""
    return Evaluation(
        items=told.pieces,
        unit="pieces",
        measures=_measures(told),
        signatures={
            "perplexity": f"{writer.tokenizer.kind}{case}, of {len(writer.tokenizer):,} entries; {_counted(stream)}, "
            f"each told as <unk>; {what}every piece told once, in stretches of {stretch:,} from a fresh state"
        },
        by="place",
        lengths=rows,
    )


def _silent(message: str) -> None:
    pass


def _places(first: int, after: int | None) -> str:
    if after is None:
        return f"{first}+"
    return str(first) if after == first + 1 else f"{first}–{after - 1}"


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
