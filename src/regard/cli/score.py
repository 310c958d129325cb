"""`regard score`: how probable given translations are to a run."""

import json
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.cli.app import app
from regard.cli.command import FAILED, RunFolder, Threads, command
from regard.cli.console import say, warn
from regard.cli.pairing import Columns, Out, Separator, Source, Target, Tsv, pairs_of, written

if TYPE_CHECKING:
    from regard.tasks.translation.predictor import Reading

Tokens = Annotated[bool, typer.Option("--tokens", help="Show each token with its own log-probability, too.")]
Format = Annotated[
    Literal["text", "jsonl"], typer.Option("--format", help="jsonl: tokens, each one's number, sum, mean, perplexity.")
]
Batch = Annotated[int, typer.Option("--batch", min=1, help="Pairs computed together; changes no more than rounding.")]


@command(
    app,
    "score",
    examples="""
    regard score runs/de-en "Ein Hund rennt ." "A dog is running ." --tokens
    regard score runs/de-en test.de test.en
    regard score runs/en-fr --tsv candidates.tsv --format jsonl --out scores.jsonl
    """,
)
def score(
    run: RunFolder,
    source: Source = None,
    target: Target = None,
    tsv: Tsv = None,
    columns: Columns = "1,2",
    separator: Separator = "\t",
    tokens: Tokens = False,
    format: Format = "text",
    out_: Out = None,
    batch: Batch = 64,
    threads: Threads = None,
) -> None:
    """Score given translations.

    One number per line, in order and in constant memory: the log-probability, in nats, of the translation, EOS
    counted, as the model reads it token by token. It is the log-probability that a search finds for the same tokens. A
    line longer than the model's limit is cut with a warning that names it, and the exit code is 1.
    """
    from regard.tasks.core.runs import config_of

    pairs = pairs_of(source, target, tsv, columns, separator, out_)
    config_of(run, "translate")

    from regard.metrics.perplexity import perplexity
    from regard.tasks.core.load import load

    translator = load(run, threads=threads)
    count = token_count = 0
    total = 0.0
    cut = False
    with written(out_) as write:
        for count, reading in enumerate(translator.readings(pairs, batch), start=1):
            write(json.dumps(_as_json(reading), ensure_ascii=False) if format == "jsonl" else _plain(reading, tokens))
            total, token_count = total + reading.log_probability, token_count + reading.length
            for note in reading.notes:
                warn(f"line {count}: {note}")
                cut = True
    if count:
        say(
            f"{count} translations of {token_count} tokens, EOS included: {total:.2f} nats, "
            f"{total / token_count:.4f} per token, perplexity {perplexity(-total, token_count):.2f}"
        )
    if cut:
        raise typer.Exit(FAILED)


def _plain(reading: "Reading", tokens: bool) -> str:
    """The sum; then, between tabs, each token and its own number."""
    parts = [f"{reading.log_probability:.4f}"]
    if tokens:
        for token, value in zip(reading.tokens, reading.log_probabilities, strict=True):
            spelt = "".join("▁" if character.isspace() else character for character in token)
            parts.append(f"{spelt} {value:.4f}")
    return "\t".join(parts)


def _as_json(reading: "Reading") -> dict[str, Any]:
    """A reading as plain data."""
    from regard.metrics.perplexity import perplexity

    content: dict[str, Any] = {
        "line": reading.source.line,
        "source": reading.source.text,
        "target": reading.target.text,
        "log_probability": reading.log_probability,
        "mean": reading.log_probability / reading.length,
        "perplexity": perplexity(-reading.log_probability, reading.length),
        "pieces": reading.tokens,
        "log_probabilities": reading.log_probabilities,
    }
    return {**content, "notes": reading.notes} if reading.notes else content
