"""`regard align`: which words of given translations belong together."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.cli.app import app
from regard.cli.command import FAILED, RunFolder, Threads, command
from regard.cli.console import out, table, warn
from regard.cli.inputs import refuse_input
from regard.cli.pairing import Columns, Out, Separator, Source, Target, Tsv, pairs_of, written
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.tasks.translation.align import Aligned
    from regard.tasks.translation.predictor import TranslationPredictor

Reverse = Annotated[
    Path | None, typer.Option("--reverse", help="A run of the other direction, to join both.", show_default=False)
]
Symmetrize = Annotated[
    Literal["intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"] | None,
    typer.Option("--symmetrize", help="How both directions are joined. [default: grow-diag-final]", show_default=False),
]
Words = Annotated[
    Literal["whitespace", "tokenizer"],
    typer.Option("--words", help="What links count: words between white space, or regard's own, marks apart."),
]
First = Annotated[int, typer.Option("--links-from", min=0, max=1, help="Number of the first word, here and in --gold.")]
Threshold = Annotated[
    float | None,
    typer.Option("--threshold", min=0, max=1, help="Link every weight of at least this, not each word's highest.",
                 show_default=False),
]  # fmt: skip
Posterior = Annotated[
    bool,
    typer.Option(
        "--posterior", help="Link by the posterior, once the word is known, instead of the weights that predict it."
    ),
]
Gold = Annotated[
    Path | None,
    typer.Option("--gold", help="True links, one line per pair: print the error rates.", show_default=False),
]
GoldReversed = Annotated[bool, typer.Option("--gold-reversed", help="The true links name the target word first.")]
Format = Annotated[
    Literal["pharaoh", "jsonl"], typer.Option("--format", help="pharaoh: a line of 0-0 1-2 (source-target) per pair.")
]
Soft = Annotated[bool, typer.Option("--soft", help="All weights between words, too; needs --format jsonl.")]
Batch = Annotated[int, typer.Option("--batch", min=1, help="Pairs computed together.")]


@command(
    app,
    "align",
    examples="""
    regard align runs/fr-en "le chat dort" "the cat sleeps"
    regard align runs/fr-en test.fr test.en --reverse runs/en-fr --out test.links
    regard align runs/fr-en test.fr test.en --posterior --format jsonl --soft
    regard align runs/fr-en test.fr test.en --reverse runs/en-fr --gold gold.links --links-from 1
    """,
)
def align(
    run: RunFolder,
    source: Source = None,
    target: Target = None,
    tsv: Tsv = None,
    columns: Columns = "1,2",
    separator: Separator = "\t",
    reverse: Reverse = None,
    symmetrize: Symmetrize = None,
    words: Words = "whitespace",
    first: First = 0,
    threshold: Threshold = None,
    posterior: Posterior = False,
    gold: Gold = None,
    gold_reversed: GoldReversed = False,
    format: Format = "pharaoh",
    soft: Soft = False,
    out_: Out = None,
    batch: Batch = 64,
    threads: Threads = None,
) -> None:
    """Align the words of given translations.

    The run reads each translation word by word; a target word is linked to the source word of highest weight.
    A line in is a line out, in order and in constant memory. With --gold a table of error rates is printed in place of
    the links (--out writes them as well): each direction, each way to join both, and two untrained baselines.
    --posterior multiplies the weights that predict a word by how well each source position alone explains it.
    """
    from regard.tasks.core.runs import config_of

    if symmetrize is not None and reverse is None:
        raise ConfigError("--symmetrize joins two directions: name a run of the other one with --reverse RUN")
    if soft and format != "jsonl":
        raise ConfigError("--soft writes whole matrices; choose --format jsonl")
    if gold_reversed and gold is None:
        raise ConfigError("--gold-reversed is for true links: name their file with --gold")
    pairs = pairs_of(source, target, tsv, columns, separator, out_)
    refuse_input(out_, gold)
    for folder in (run, reverse):
        if folder is not None:
            config_of(folder, "translate")
    joined = symmetrize or ("grow-diag-final" if reverse is not None else None)

    from regard.tasks.core.load import load
    from regard.tasks.translation.align import align as align_pairs

    forward = load(run, threads=threads)
    backward = None if reverse is None else load(reverse, threads=threads)
    if backward is not None and _of_one_direction(forward, backward):
        warn(f"{reverse} reads and writes with the vocabularies of {run}; --reverse takes a run of the other direction")
    true = None
    if gold is not None:
        from regard.data.pairs.parallel_text import Pair
        from regard.data.pairs.pharaoh import with_links

        given = [Pair(one, other, "the pairs", line) for line, (one, other) in enumerate(pairs, start=1)]
        if not given:
            raise DataError("there are no pairs to measure: the files are empty")
        true = with_links(given, gold, first=first, counted=words, target_first=gold_reversed)
        pairs = iter([(pair.source, pair.target) for pair in given])
    found = align_pairs(
        forward, pairs, backward=backward, counted=words, threshold=threshold, posterior=posterior, batch=batch
    )
    alignments = _Warned(found)
    if true is None or out_ is not None:
        kept = []
        with written(out_) as write:
            for line, one in enumerate(alignments, start=1):
                write(_shown(one, line, joined, first, format, soft))
                if true is not None:
                    kept.append(one)
    else:
        kept = list(alignments)
    if true is not None:
        from regard.tasks.translation.align import measure

        scores = {name: value._asdict() for name, value in measure(kept, true).items()}
        if format == "jsonl":
            out(json.dumps(scores))
        else:
            rows = [[name, *_rates(one)] for name, one in scores.items()]
            out(table([f"{len(kept)} pairs", "AER", "precision", "recall", "links"], rows))
    if alignments.cut:
        raise typer.Exit(FAILED)


def _of_one_direction(one: "TranslationPredictor", other: "TranslationPredictor") -> bool:
    """Whether both surely read the same language; a vocabulary that both sides share does not show it."""
    mine, its = ((each.source.fingerprint(), each.target.fingerprint()) for each in (one, other))
    return mine == its and len(set(mine)) == 2


class _Warned:
    """Alignments on their way, with a warning for each line that was cut."""

    def __init__(self, found: "Iterator[Aligned]") -> None:
        self.found, self.cut = found, False

    def __iter__(self) -> "Iterator[Aligned]":
        for line, one in enumerate(self.found, start=1):
            for note in one.notes:
                warn(f"line {line}: {note}")
                self.cut = True
            yield one


def _rates(scores: dict[str, Any]) -> list[str]:
    return [f"{scores[name]:.4f}" for name in ("error_rate", "precision", "recall")] + [str(scores["predicted"])]


def _shown(one: "Aligned", line: int, joined: str | None, first: int, format: str, soft: bool) -> str:
    from regard.data.pairs.pharaoh import format_pharaoh

    links = one.links(joined)
    if format == "pharaoh":
        return format_pharaoh(links, first=first)
    content: dict[str, Any] = {
        "line": line,
        "source_words": one.source_words,
        "target_words": one.target_words,
        "links": [[source + first, target + first] for source, target in sorted(links)],
    }
    if soft:
        content["weights"] = one.weights.tolist()
    if one.notes:
        content["notes"] = one.notes
    return json.dumps(content, ensure_ascii=False)
