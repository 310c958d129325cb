"""The options of a search, shared by the commands that decode, and laid over those of the run; and who searches."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.decoding.settings import SearchSettings
    from regard.tasks.translation.predictor import TranslationPredictor

Beam = Annotated[
    int | None,
    typer.Option(
        "--beam", help="Hypotheses kept at each step, at most as many as the vocabulary has entries; 1 is greedy."
    ),
]
NBest = Annotated[int | None, typer.Option("--n-best", help="Hypotheses returned.")]
MaxLength = Annotated[int | None, typer.Option("--max-length", help="Longest translation, in tokens.")]
LengthPenalty = Annotated[
    float | None, typer.Option("--length-penalty", help="Power of the length that divides a score; 0: none.")
]
MinLength = Annotated[int | None, typer.Option("--min-length", help="Tokens that come before a translation may end.")]
CoveragePenalty = Annotated[
    float | None,
    typer.Option("--coverage-penalty", help="Weight of the term that rewards attention to every source token."),
]
Sample = Annotated[bool | None, typer.Option("--sample/--no-sample", help="Draw the translation.")]
Temperature = Annotated[float | None, typer.Option("--temperature", help="Of the draw.")]
TopK = Annotated[int | None, typer.Option("--top-k", help="Draw among the k likeliest.")]
TopP = Annotated[float | None, typer.Option("--top-p", help="Draw among the likeliest that sum to p.")]
With = Annotated[
    list[Path] | None,
    typer.Option("--with", metavar="RUN", help="Another run of the same vocabulary to decode together; repeatable."),
]
MeanOf = Annotated[
    Literal["probability", "log"] | None,
    typer.Option("--mean", help="What --with averages: probabilities or their logarithms. [default: probability]"),
]


def search_from(run: Path, **options: Any) -> "SearchSettings":
    """The run's search settings with the options that were given in their place; checked before any model is loaded."""
    from regard.tasks.core.config import check, merge
    from regard.tasks.core.runs import config_of
    from regard.tasks.core.settings import settings_of

    tree = config_of(run, "translate")
    given = {name: value for name, value in options.items() if value is not None}
    tree = merge(tree, {"search": given})
    settings: Any = check(settings_of(tree["task"]), tree)
    search: SearchSettings = settings.search
    return search


def loaded(
    run: Path, beside: list[Path] | None, mean: Literal["probability", "log"] | None, threads: int | None
) -> "TranslationPredictor":
    """The translator of a run, or of it and others together.

    Raises:
        ConfigError: `mean` is given for a single run.
    """
    if not beside:
        if mean is not None:
            raise ConfigError("--mean says how several runs are averaged: name the others, --with RUN")
        from regard.tasks.core.load import load

        translator: TranslationPredictor = load(run, threads=threads)
        return translator
    from regard.tasks.translation.ensemble import ensemble

    return ensemble([run, *beside], mean=mean or "probability", threads=threads)
