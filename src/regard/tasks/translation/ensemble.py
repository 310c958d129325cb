"""Several runs as one translator."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from jaxtyping import Int
from torch import Tensor, nn

from regard.decoding.ensemble import Ensemble, Mean
from regard.errors import ConfigError, RunError
from regard.models.seq2seq.translators import Model
from regard.tasks.core.config import check
from regard.tasks.core.runs import config_of
from regard.tasks.translation.predictor import TranslationPredictor
from regard.tasks.translation.settings import TranslationSettings
from regard.training.randomness import set_threads


class EnsembleModel:
    """The interface that a `TranslationPredictor` needs of its model, over several models.

    Args:
        models: they read the same source ids and write the same target ids.
        mean: of their probabilities or of the logarithms of these, see `decoding.ensemble.Ensemble`.
    """

    def __init__(self, models: Sequence[Model], mean: Mean = "probability") -> None:
        self.models = list(models)
        self.decoder = Ensemble([model.decoder for model in models], mean)

    def encode(self, source: Int[Tensor, "batch positions"], lengths: Int[Tensor, " batch"]) -> tuple[Any, ...]:
        """Each member reads the source by itself."""
        return tuple(model.encode(source, lengths) for model in self.models)

    def eval(self) -> "EnsembleModel":
        """Put all members into eval mode."""
        for model in self.models:
            model.eval()
        return self

    def parameters(self) -> Iterator[nn.Parameter]:
        """Those of all members."""
        return chain.from_iterable(model.parameters() for model in self.models)


def ensemble(
    runs: Sequence[str | Path], *, mean: Mean = "probability", threads: int | None = None
) -> TranslationPredictor:
    """Several translation runs as one `TranslationPredictor`: one search over the mean of their probabilities.

    The members may differ in everything but their vocabularies. Search settings are the first run's; a line is cut at
    the smallest of the members' limits.

    Args:
        runs: their folders; one and the same may come twice, and then counts twice.
        mean: "probability", or "log" for the mean of the logarithms.
        threads: to compute with; all cores if not given.

    Raises:
        ConfigError: no run was given, or one is of another task.
        RunError: a run cannot be used, or its vocabulary is not the first one's; the message names both.
    """
    if not runs:
        raise ConfigError("an ensemble needs at least one run; none was given")
    for run in runs:
        check(TranslationSettings, config_of(run, "translate"))  # all, before any weights are read
    if threads is not None:
        set_threads(threads)
    members = [TranslationPredictor.load(run) for run in runs]
    first = members[0]
    for run, other in zip(runs[1:], members[1:], strict=True):
        refuse_other_vocabulary(runs[0], first, run, other)
    shortest = min(member.settings.data.max_length for member in members)
    data = first.settings.data.model_copy(update={"max_length": shortest})
    settings = first.settings.model_copy(update={"data": data})
    model = EnsembleModel([member.model for member in members], mean)
    return TranslationPredictor(model, first.parts, settings)


def refuse_other_vocabulary(
    run: str | Path, translator: TranslationPredictor, other_run: str | Path, other: TranslationPredictor
) -> None:
    """Refuse a second run whose vocabularies are not those of the first.

    Raises:
        RunError: the two cut text into other tokens, or number them otherwise.
    """
    for side in ("source", "target"):
        mine, its = getattr(translator, side), getattr(other, side)
        if mine.fingerprint() != its.fingerprint():
            raise RunError(
                f"{run} and {other_run} have different {side} vocabularies ({mine.kind} with {len(mine)} entries, "
                f"{its.kind} with {len(its)}): token 7 of one is another token in the other. Train both on the "
                "same data with the same data.* settings. Which pairs are held out is drawn by --seed, so name them to "
                "train with another: data.validation.source=FILE data.validation.target=FILE"
            )
