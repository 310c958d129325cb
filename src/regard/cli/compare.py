"""`regard compare`: runs side by side, and whether they differ by more than chance."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.cli.app import app
from regard.cli.command import Threads, command
from regard.cli.console import out, say, table, warn
from regard.cli.searching import Beam, search_from
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.tasks.experiments.significance import Comparison

Systems = Annotated[
    list[Path],
    typer.Argument(metavar="RUN…", help="Folders of runs; with --target also files of outputs.", show_default=False),
]
Source = Annotated[Path | None, typer.Option(help="Sentences that the runs translate.")]
Target = Annotated[Path | None, typer.Option(help="Their translations: test the runs' outputs against these.")]
TestOption = Annotated[
    Literal["bootstrap", "ar"] | None,
    typer.Option("--test", help="Paired bootstrap, or approximate randomization. [default: bootstrap]"),
]
Samples = Annotated[
    int | None, typer.Option("--samples", min=40, help="Texts drawn. [default: 1,000; of --test ar 10,000]")
]
SeedOption = Annotated[int | None, typer.Option("--seed", min=1, help="Seed of the draws. [default: sacreBLEU's]")]
Batch = Annotated[int, typer.Option("--batch", min=1, help="Sentences computed together; never changes a result.")]
Format = Annotated[Literal["text", "json"], typer.Option("--format", help="How results are written.")]


@command(
    app,
    "compare",
    examples="""
    regard compare runs/additive runs/dot
    regard compare runs/additive runs/dot --source test.de --target test.en --beam 5
    regard compare baseline.out ours.out --target test.en --test ar
    regard compare runs/* --format json
    """,
)
def compare(
    systems: Systems,
    source: Source = None,
    target: Target = None,
    test: TestOption = None,
    samples: Samples = None,
    seed: SeedOption = None,
    beam: Beam = None,
    batch: Batch = 64,
    format: Format = "text",
    threads: Threads = None,
) -> None:
    """Compare runs side by side.

    Shows where their settings differ and what came of each. What `regard evaluate` measured is shown too.

    With --target each run translates --source, and all are compared with the first, sentence by sentence: BLEU and chrF
    with intervals of 95 %, p-values of a paired test, and in words whether a difference is significant. A file of
    outputs, one line per sentence, may stand for a run.
    """
    if target is not None:
        _test(systems, source, target, test or "bootstrap", samples, seed, beam, batch, format, threads)
        return
    given = {"--source": source, "--test": test, "--samples": samples, "--seed": seed, "--beam": beam}
    used = [name for name, value in given.items() if value is not None]
    if used:
        raise ConfigError(f"{', '.join(used)} need translations to compare with: give --target too")
    if files := [path for path in systems if path.is_file()]:
        raise ConfigError(f"{files[0]} is a file; to compare outputs give their translations too: --target FILE")

    from regard.tasks.experiments.compare import summaries

    found = summaries(systems)
    if format == "json":
        out(json.dumps(found, ensure_ascii=False, indent=2))
        return
    head, *names = dict.fromkeys(name for summary in found for name in summary)  # the runs' names come first
    rows = [[name, *(_shown(summary.get(name)) for summary in found)] for name in names]
    out(table([head, *(summary[head] for summary in found)], rows))


def _test(
    systems: list[Path],
    source: Path | None,
    target: Path,
    test: Literal["bootstrap", "ar"],
    samples: int | None,
    seed: int | None,
    beam: int | None,
    batch: int,
    format: str,
    threads: int | None,
) -> None:
    if len(systems) < 2:
        raise ConfigError("a paired test compares at least two systems; name another run or file of outputs")
    runs = [path for path in systems if not path.is_file()]
    if runs and source is None:
        raise ConfigError(f"{runs[0]} has to translate something: give --source too")
    searches = {path: search_from(path, beam=beam) for path in runs}  # all checked before the first one translates

    from regard.data.pairs.parallel_text import read_pairs
    from regard.data.text.lines import read_lines
    from regard.metrics.significance import SEED
    from regard.tasks.core.load import load
    from regard.tasks.experiments.significance import compare_outputs
    from regard.tasks.translation.evaluation import case_notes

    if source is None:
        sources, references = [], read_lines(target)
    else:
        pairs = read_pairs(source, target)
        sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    outputs: dict[Path, list[str]] = {}
    for path in systems:
        if path in outputs:
            continue
        if path not in searches:
            outputs[path] = read_lines(path)
            continue
        say(f"Translating with {path}")
        translator = load(path, threads=threads)
        translations = translator.translate(sources, searches[path], batch)
        for one in translations:
            if one.note:
                warn(f"{path}, line {one.line}: {one.note}")
        for note in case_notes(translator, references):
            warn(f"{path}: {note}")
        outputs[path] = [one.text for one in translations]
    found = compare_outputs(
        [str(path) for path in systems],
        [outputs[path] for path in systems],
        references,
        test=test,
        samples=samples,
        seed=SEED if seed is None else seed,
    )
    if format == "json":
        out(json.dumps(found.to_json(), ensure_ascii=False, indent=2))
    else:
        _print(found)


def _print(found: "Comparison") -> None:
    rows = []
    for place, system in enumerate(found.names):
        entries = [measured[place] for measured in found.measures.values()]
        rows.append([system, *(f"{entry.value:.2f} [{entry.low:.2f}, {entry.high:.2f}]" for entry in entries)])
    out(table([f"{found.pairs} pairs", *found.measures], rows))
    out()
    for line in found.words():
        out(line)
    for name, signature in found.signatures.items():
        out(f"{name}: {signature}")


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
