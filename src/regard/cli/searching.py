"""The options of a search, shared by the commands that decode, and laid over those of the run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from regard.decoding.settings import SearchSettings

Beam = Annotated[int | None, typer.Option("--beam", help="Hypotheses kept at each step; 1 is greedy.")]
NBest = Annotated[int | None, typer.Option("--n-best", help="Hypotheses returned.")]
MaxLength = Annotated[int | None, typer.Option("--max-length", help="Longest translation, in pieces.")]
LengthPenalty = Annotated[
    float | None, typer.Option("--length-penalty", help="Power of the length that divides a score; 0: none.")
]
MinLength = Annotated[int | None, typer.Option("--min-length", help="Pieces that come before a translation may end.")]
CoveragePenalty = Annotated[
    float | None, typer.Option("--coverage-penalty", help="Weight of the term that asks every source piece to be read.")
]
Sample = Annotated[bool | None, typer.Option("--sample/--no-sample", help="Draw the translation.")]
Temperature = Annotated[float | None, typer.Option("--temperature", help="Of the draw.")]
TopK = Annotated[int | None, typer.Option("--top-k", help="Draw among the k likeliest.")]
TopP = Annotated[float | None, typer.Option("--top-p", help="Draw among the likeliest that sum to p.")]


def search_from(run: Path, **options: Any) -> "SearchSettings":
    """The run's search settings with the options that were given in their place; checked before any model is loaded."""
    from regard.tasks.config import check, merge
    from regard.tasks.runs import config_of
    from regard.tasks.settings import TranslationSettings

    tree = config_of(run)
    given = {name: value for name, value in options.items() if value is not None}
    tree = merge(tree, {"search": given})
    return check(TranslationSettings, tree).search
