"""How well a language model predicts a whole text, each token from all those before it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.data.language.settings import DEFAULT_SEGMENT, TestedText
from regard.data.language.stream import TokenStream, evaluation_segments
from regard.data.language.streams import read_other, read_streams
from regard.errors import ConfigError, TooLong
from regard.layers.objective import IGNORED
from regard.metrics.perplexity import perplexity
from regard.models.text.language_models import Model
from regard.models.transformer.language import TransformerLanguageModel
from regard.tasks.core.config import check
from regard.tasks.core.evaluation import Evaluation
from regard.tasks.language.data import description
from regard.tasks.language.predictor import LanguagePredictor
from regard.tasks.language.received import received
from regard.tasks.language.settings import LanguageSettings


@dataclass
class TokenSums:
    """Sums over tokens.

    Attributes:
        nats: −log p of each, summed.
        correct: for how many of them the likeliest token was the right one.
        tokens: how many.
        each: the three by the place of a token in its segment, from 0.
        stopped: why segments could not be read to their end, if they could not.
    """

    nats: float = 0.0
    correct: int = 0
    tokens: int = 0
    each: list[tuple[float, int, int]] = field(default_factory=list)
    stopped: str = ""

    def of(self, first: int, last: int | None) -> "TokenSums":
        """The sums over some places of the segments."""
        some = self.each[first:last]
        nats, correct, tokens = (sum(column) for column in zip(*some, strict=True)) if some else (0.0, 0, 0)
        return TokenSums(nats, int(correct), int(tokens), some)


def segment_length_of(settings: LanguageSettings, chosen: int | None = None) -> int:
    """Tokens that a test reads from one fresh state: of a Transformer as many as its training read, unless chosen.

    It was trained on no position beyond its window; a recurrent model carries its state any distance.
    """
    trained = settings.data.window if settings.model.kind == "transformer" else DEFAULT_SEGMENT
    return trained if chosen is None else chosen


def evaluate_stream(
    model: Model, stream: TokenStream, settings: LanguageSettings, segment_length: int | None = None
) -> TokenSums:
    """How well a model in eval mode predicts a text, read as the settings of its run say; see `evaluate_segments`."""
    return evaluate_segments(
        model,
        stream,
        segment_length=segment_length_of(settings) if segment_length is None else segment_length,
        window=settings.data.window,
        apart=settings.data.documents == "apart",
    )


@torch.no_grad()
def evaluate_segments(
    model: Model, stream: TokenStream, *, segment_length: int, window: int, apart: bool = False
) -> TokenSums:
    """Read a text in segments, each from a fresh state that is carried to its end; every token is predicted once.

    The size of the window changes results by float32 rounding alone: the state is carried from one to the next. A model
    with a limited number of positions is evaluated up to the last window that fits them; `stopped` says so, and the
    sums lack the rest.

    Args:
        model: in eval mode.
        stream: the text.
        segment_length: tokens that are read from one fresh state.
        window: tokens of each segment that are computed together.
        apart: begin a segment with each document.
    """
    device = next(model.parameters()).device
    sums = torch.zeros(3, min(segment_length, len(stream)), dtype=torch.float64)
    state: Any = None
    stopped, over = "", False
    for part in evaluation_segments(stream, segment_length, window, IGNORED, apart):
        wanted = part.targets.to(device)
        if part.start == 0:
            state, over = model.start(None, len(wanted)), False
        if over:  # a last, shorter part would fit again, at places that are not its own
            continue
        try:
            logits, state, _ = model.step(state, part.inputs.to(device))
        except TooLong as error:
            stopped, over = str(error), True
            continue
        sums[:, part.start : part.start + wanted.shape[1]] += _sums(logits, wanted).cpu()
    each = [(nats, int(correct), int(tokens)) for nats, correct, tokens in sums.T.tolist()]
    whole = TokenSums(each=each).of(0, None)
    return TokenSums(whole.nats, whole.correct, whole.tokens, each, stopped)


def _sums(logits: Tensor, wanted: Tensor) -> Tensor:
    """For each place −log p, right ones and tokens, summed over the segments: `(3, places)`."""
    kept = wanted != IGNORED
    target = torch.where(kept, wanted, 0)
    nats = -logits.log_softmax(-1).gather(-1, target.unsqueeze(-1)).squeeze(-1).double()
    correct = (logits.argmax(-1) == wanted) & kept
    return torch.stack([torch.where(kept, nats, 0.0).sum(0), correct.sum(0).double(), kept.sum(0).double()])


_PLACES = (1, 9, 65, 257)
"""Places in a segment, from 1, at which the next row of the table begins."""


def measures_of(sums: TokenSums) -> dict[str, float]:
    """Perplexity, accuracy and loss (nats), each per token."""
    return {
        "perplexity": perplexity(sums.nats, sums.tokens),
        "accuracy": sums.correct / sums.tokens,
        "loss": sums.nats / sums.tokens,
    }


def evaluate_run(writer: LanguagePredictor, run: Path, test: dict[str, Any]) -> Evaluation:
    """Read a text, or the part that the run held out, and predict every token of it; see `evaluate_stream`.

    Args:
        writer: of the run.
        run: its folder.
        test: values of `TestedText`; {} for what the run held out.

    Raises:
        ConfigError: nothing was held out to test on, or the model or the text does not fit what is asked.
    """
    tested, data = check(TestedText, test), writer.settings.data
    if tested.text is not None:
        stream = read_other(data, tested.text, writer.tokenizer)
    else:
        stream = read_streams(data, writer.tokenizer, _silent, (tested.part,))[1][tested.part]
        if not len(stream):
            raise ConfigError(
                "the run held no text out to test on (data.test_share is 0); name one, or part=validation"
            )
    segment_length = segment_length_of(writer.settings, tested.stretch)
    sums = evaluate_stream(writer.model, stream, writer.settings, segment_length)
    shares = (
        _received(writer, stream, segment_length, tested.received) if tested.received and not sums.stopped else None
    )
    rows: list[dict[str, Any]] = []
    places = (1, *tested.edges) if tested.edges else _PLACES
    for first, after in zip(places, (*places[1:], None), strict=True):
        last = None if after is None else after - 1
        some = sums.of(first - 1, last)
        if some.tokens:
            row = {"place": _places(first, after), "pieces": some.tokens, **measures_of(some)}
            rows.append(row if shares is None else {**row, "received": float(shares[first - 1 : last].mean())})
    stopped = f"{sum(1 for *_, tokens in sums.each if tokens) + 1}: {sums.stopped}" if sums.stopped else ""
    case = ", lower case" if writer.tokenizer.lower else ""
    what = "each document from its beginning, " if data.documents == "apart" else ""
    return Evaluation(
        items=sums.tokens,
        unit="pieces",
        measures=measures_of(sums) if not sums.stopped else {},  # of the whole text, or of none of it
        signatures={
            "perplexity": f"{writer.tokenizer.kind}{case}, of {len(writer.tokenizer):,} entries; "
            f"{description(stream)}, each predicted as <unk>; {what}each token is predicted once, "
            f"in evaluation segments of {segment_length:,} tokens, each from a fresh state"
        },
        by="place",
        lengths=rows,
        notes=[f"nothing further could be read. Place {stopped}"] if stopped else [],
        stopped=stopped,
    )


def _received(writer: LanguagePredictor, stream: TokenStream, segment_length: int, texts: int) -> Tensor:
    """The weight that each place of the first segments receives from the last ones."""
    model, whole = writer.model, len(stream) // segment_length
    if not isinstance(model, TransformerLanguageModel):
        raise ConfigError("received: it is measured of a Transformer, which attends to all positions; leave it out")
    if whole == 0:
        raise ConfigError(f"received: the text has {len(stream)} tokens, less than one segment of {segment_length}")
    ids = torch.from_numpy(stream.ids[: min(texts, whole) * segment_length].astype("int64")).view(-1, segment_length)
    return received(
        model, ids.to(next(model.parameters()).device), min(writer.settings.data.window, segment_length)
    ).cpu()


def _silent(message: str) -> None:
    pass


def _places(first: int, after: int | None) -> str:
    if after is None:
        return f"{first}+"
    return str(first) if after == first + 1 else f"{first}–{after - 1}"
