"""`regard translate`: one line in is one line out, whatever the line."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.cli.app import app
from regard.cli.command import FAILED, RunFolder, Seed, Threads, command
from regard.cli.console import Pace, out, say, typed, warn
from regard.cli.inputs import Input, is_file, is_typed, lines_of, refuse_input
from regard.cli.outputs import closing, formatter
from regard.cli.searching import (
    Beam,
    CoveragePenalty,
    LengthPenalty,
    MaxLength,
    MeanOf,
    MinLength,
    NBest,
    Sample,
    Temperature,
    TopK,
    TopP,
    With,
    loaded,
    search_from,
)
from regard.errors import ConfigError
from regard.files import digest

if TYPE_CHECKING:
    from regard.decoding.settings import SearchSettings
    from regard.tasks.translation.predictor import Translation, TranslationPredictor

Align = Annotated[
    Literal["none", "words", "soft"],
    typer.Option("--align", help="words: links such as 0-0 2-1 (Pharaoh); soft: all weights, in JSON only."),
]
Format = Annotated[
    Literal["text", "tsv", "nbest", "json", "jsonl"],
    typer.Option("--format", help="tsv: source and output; nbest: index ||| output ||| features ||| score."),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", help="Write to this file; of a file as input it continues after a kill."),
]
Batch = Annotated[int, typer.Option("--batch", min=1, help="Sentences computed together; never changes a result.")]

_CHUNK = 16
"""Batches after which the output so far is brought to the disk."""


@command(
    app,
    "translate",
    examples="""
    regard translate runs/de-en "Ein Hund rennt im Schnee ."
    regard translate runs/de-en test.de.gz --beam 5 --out test.out
    cat test.de | regard translate runs/de-en - --align words
    regard translate runs/de-en test.de --format jsonl --n-best 3 --align soft
    regard translate runs/de-en test.de --beam 5 --n-best 5 --format nbest
    regard translate runs/de-en test.de --with runs/de-en-2 --with runs/de-en-3
    regard translate runs/en-de more.en --sample --format tsv --out back.tsv
    """,
)
def translate(
    run: RunFolder,
    text: Input = "-",
    align: Align = "none",
    format: Format = "text",
    out_: Out = None,
    beam: Beam = None,
    n_best: NBest = None,
    max_length: MaxLength = None,
    min_length: MinLength = None,
    length_penalty: LengthPenalty = None,
    coverage_penalty: CoveragePenalty = None,
    sample: Sample = None,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    with_: With = None,
    mean: MeanOf = None,
    batch: Batch = 64,
    seed: Seed = None,
    threads: Threads = None,
) -> None:
    """Translate a text, a file or standard input.

    Line by line and in order, in constant memory: one line in is one line out, whatever the line (with --format nbest
    and tsv, one per output). A line longer than the model's limit is cut with a warning that names it, and the exit
    code is 1.

    A file is translated into --out FILE by way of FILE.part. After a kill at any moment the same command continues from
    there, and the result is the same byte for byte; another input, run or option is refused, so that no work is lost
    by mistake.

    Back-translation (Sennrich et al. 2016): train a run of the other direction, translate target text with it, and
    train on the result beside real pairs: --format tsv writes text<TAB>translation, and data.columns=[2,1] reads it the
    other way round. Drawn translations teach more than a beam's where there is much text (Edunov et al. 2018):
    --sample, with --beam and --n-best for several draws of a line.
    """
    if align == "soft" and format not in ("json", "jsonl"):
        raise ConfigError("--align soft writes whole matrices; choose --format json or jsonl")
    text = typed(text)
    from_file = is_file(text)
    refuse_input(out_, text)
    search = search_from(
        run,
        beam=beam,
        n_best=n_best,
        max_length=max_length,
        min_length=min_length,
        length_penalty=length_penalty,
        coverage_penalty=coverage_penalty,
        sample=sample,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
    )
    lines = lines_of(text)
    translator = loaded(run, with_, mean, threads)
    work = _Work(translator, search, batch, format, align)
    if from_file and out_ is not None and str(out_) != "-" and (out_.is_file() or not out_.exists()):
        origin = {
            "input": digest(Path(text)),
            "weights": [digest(one / "model.safetensors") for one in (run, *(with_ or []))],
            "vocabularies": [translator.source.fingerprint(), translator.target.fingerprint()],
            "limit": translator.settings.data.max_length,
            "search": search.model_dump(mode="json"),
            "mean": mean,
            "format": format,
            "align": align,
            "batch": batch,
        }
        cut = work.grow(text, out_, origin)
    else:
        cut = work.flow(lines, out_, chunk=1 if is_typed(text) else _CHUNK * batch)
    if cut:
        raise typer.Exit(FAILED)


@dataclass(frozen=True)
class _Work:
    """Who translates, and how that is written. Both ways give the number of lines that were cut."""

    translator: "TranslationPredictor"
    search: "SearchSettings"
    batch: int
    format: str
    align: str

    def flow(self, lines: Iterator[str], path: Path | None, chunk: int) -> int:
        """To standard output as the lines come, or to a file that appears when it is whole."""
        write_one, empty, cut = formatter(self.format, self.align), True, 0
        with _written(path) as write:
            for one in self.translator.stream(lines, search=self.search, batch=self.batch, chunk=chunk):
                for line in write_one(one):
                    write(line)
                empty, cut = False, cut + _warned(one)
            for line in closing(self.format, empty):
                write(line)
        return cut

    def grow(self, source: str, path: Path, origin: dict[str, Any]) -> int:
        """From a file to a file, a chunk at a time, so that a kill costs one chunk."""
        from regard.data.text.lines import iterate_lines
        from regard.tasks.core.growing import GrowingFile

        total = sum(1 for _ in iterate_lines(source))  # a line that cannot be read is reported before the work
        chunk = _CHUNK * self.batch
        file = GrowingFile(path, origin)
        try:
            with file:
                if file.items:
                    say(f"{file.part} holds {file.items:,} of {total:,} lines; continuing after them.")
                if file.marked:
                    warn(f"{file.marked:,} of these lines were cut")
                write_one, cut = formatter(self.format, self.align, first=file.items == 0), file.marked
                pace = Pace(total, file.items)
                rest = islice(iterate_lines(source), file.items, None)
                begun = file.items + 1
                for one in self.translator.stream(rest, search=self.search, batch=self.batch, chunk=chunk, first=begun):
                    file.write("".join(line + "\n" for line in write_one(one)))
                    cut += _warned(one)
                    if one.line % chunk == 0:
                        file.keep(one.line, cut)
                        pace(one.line)
                file.write("".join(line + "\n" for line in closing(self.format, total == 0)))
        except KeyboardInterrupt:
            if file.items:
                say(
                    f"{file.items:,} of {total:,} lines are kept in {file.part}; the same command continues after them."
                )
            raise
        return cut


def _warned(translation: "Translation") -> int:
    """Say that a line was cut, if it was: 1 or 0."""
    if not translation.note:
        return 0
    warn(f"line {translation.line}: {translation.note}")
    return 1


@contextmanager
def _written(path: Path | None) -> "Iterator[Any]":
    """Where lines go: standard output as they come, or a file that appears when it is whole."""
    if path is None or str(path) == "-":
        yield out
        return
    from regard.files import replacing

    with replacing(path) as part, open(part, "w", encoding="utf-8", newline="\n") as file:
        yield lambda line: file.write(line + "\n")
