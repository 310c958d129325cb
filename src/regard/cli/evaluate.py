"""`regard evaluate`: how good a run is on test data."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.cli.app import app
from regard.cli.command import RunFolder, Threads, command, whole_numbers
from regard.cli.console import out, say, table, warn
from regard.cli.inputs import refuse_input
from regard.cli.pairing import Columns, Separator, columns_of
from regard.cli.searching import Beam, CoveragePenalty, LengthPenalty, MaxLength, MeanOf, With, loaded, search_from
from regard.errors import ConfigError
from regard.files import refuse_folder, write_atomically

if TYPE_CHECKING:
    from regard.tasks.core.evaluation import Evaluation

_FOR_ALL = ("--format", "--threads", "--debug", "--quiet")
_FORMATS = {"bleu": ".2f", "chrf": ".2f", "perplexity": ".2f", "entropy": ".2f", "exact": ".4f", "aer": ".4f"}

Assignments = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Test data of a task other than translation.", show_default=False),
]
Source = Annotated[Path | None, typer.Option(help="Source sentences; the run's held-out pairs if no files are given.")]
Tsv = Annotated[Path | None, typer.Option(help="Lines of source<TAB>target, in place of two files.")]
Jsonl = Annotated[Path | None, typer.Option(help='Lines of {"source": …, "target": …}, in place of two files.')]
Target = Annotated[Path | None, typer.Option(help="Their translations, line by line.")]
Links = Annotated[Path | None, typer.Option(help="True links, one line per pair: 0-0 1-2, or 1p2 for a possible one.")]
First = Annotated[int, typer.Option("--links-from", min=0, max=1, help="Number of the first word in the links.")]
Words = Annotated[
    Literal["whitespace", "tokenizer"],
    typer.Option("--words", help="What the links count: words between white space, or regard's own."),
]
Reversed = Annotated[bool, typer.Option("--links-reversed", help="The links name the target word first.")]
Predictions = Annotated[Path | None, typer.Option(help="Write the translations to this file.")]
Format = Annotated[Literal["text", "json"], typer.Option("--format", help="How results are written.")]
Edges = Annotated[
    str | None, typer.Option("--edges", help="Source lengths at which the rows by length begin. [default: 8,11,14,18]")
]
Batch = Annotated[int, typer.Option("--batch", min=1, help="Sentences computed together; never changes a result.")]


@command(
    app,
    "evaluate",
    examples="""
    regard evaluate runs/de-en --source test.de.gz --target test.en.gz --beam 5
    regard evaluate runs/de-en --source test.de --target test.en --links test.links --format json
    regard evaluate runs/de-en --tsv test.tsv --links test.links --links-from 1
    regard evaluate runs/en-fr --edges 4,6,8
    regard evaluate runs/copy lengths=[40,120] sequences=100
    regard evaluate runs/seed-0 --with runs/seed-1 --with runs/seed-2 --source test.de --target test.en
    """,
)
def evaluate(
    given: list[str],
    run: RunFolder,
    settings: Assignments = None,
    source: Source = None,
    target: Target = None,
    tsv: Tsv = None,
    jsonl: Jsonl = None,
    columns: Columns = "1,2",
    separator: Separator = "\t",
    links: Links = None,
    first: First = 0,
    words: Words = "whitespace",
    links_reversed: Reversed = False,
    predictions: Predictions = None,
    beam: Beam = None,
    max_length: MaxLength = None,
    length_penalty: LengthPenalty = None,
    coverage_penalty: CoveragePenalty = None,
    with_: With = None,
    mean: MeanOf = None,
    edges: Edges = None,
    batch: Batch = 64,
    format: Format = "text",
    threads: Threads = None,
) -> None:
    """Measure a run on test data.

    BLEU and chrF with their signatures, exact match, perplexity, the entropy of the attention's rows in nats, and AER
    where true links are known. The result is also kept in the run's folder, for `regard compare`, but not with --with.
    Runs of other tasks are tested on the data that KEY=VALUE says, or on what they held out; --format and --threads
    are for all tasks, the other options for translation.
    """
    from regard.tasks.core.config import check, leaves, parse_assignments
    from regard.tasks.core.runs import config_of
    from regard.tasks.core.settings import settings_of, task_names

    tree = config_of(run)
    kind = settings_of(str(tree.get("task")))
    known = kind.options.get("evaluate", ())
    for option in given:
        name = option.removeprefix("--")
        if option not in _FOR_ALL and name not in known:
            takers = [one for one in task_names() if name in settings_of(one).options.get("evaluate", ())]
            raise ConfigError(
                f"{option} is for {' and '.join(takers)}, and {run} is a run of {tree['task']}: write KEY=VALUE"
            )
    if settings and "source" in known:
        raise ConfigError(f"{settings[0]!r}: a translator is tested on files: --source and --target, --tsv, or --jsonl")
    if (source is None) != (target is None):
        raise ConfigError("give --source and --target together, or neither for the run's held-out pairs")
    files = [path for path in (source, tsv, jsonl) if path is not None]
    if len(files) > 1:
        raise ConfigError("choose one kind of test data: --source and --target, --tsv, or --jsonl")
    if links is not None and source is None and tsv is None:
        raise ConfigError("--links belong to the test pairs: give --source and --target, or --tsv, too")
    if tsv is None and (columns, separator) != ("1,2", "\t"):
        raise ConfigError("--columns and --separator describe a table: name it with --tsv")
    if predictions is not None:
        refuse_folder(predictions)  # before everything is translated
        refuse_input(predictions, source, target, tsv, jsonl, links)
    test = parse_assignments(settings or [])
    if edges is not None:
        test["edges"] = sorted(whole_numbers("--edges", edges, least=1))
    how: dict[str, Any] = {"batch": batch} if "batch" in known else {}
    if "beam" in known:
        how["search"] = search_from(
            run, beam=beam, max_length=max_length, length_penalty=length_penalty, coverage_penalty=coverage_penalty
        )
    if files:
        test |= {
            "source": source,
            "target": target,
            "tsv": tsv,
            "jsonl": jsonl,
            "columns": columns_of(columns),
            "separator": separator,
            "links": links,
            "links_from": first,
            "links_words": words,
            "links_reversed": links_reversed,
        }
    tested = check(kind.tests, test).model_dump(mode="json", exclude_unset=True)

    from regard.tasks.core.evaluations import keep_evaluation
    from regard.tasks.core.task import find_task

    result = find_task(tree).evaluate(loaded(run, with_, mean, threads), run, tested, **how)
    for note in result.notes:
        warn(note)
    named = [f"{key}={value}" for key, value in leaves(tested) if settings]
    name = files[0].name if files else ", ".join(named) or "held out"
    detail = {"search": how["search"].model_dump(mode="json")} if "search" in how else {"test": tested}
    entry = {"data": name, **detail, **result.to_json()}
    if with_:
        entry = {"runs": [str(one) for one in (run, *with_)], "mean": mean or "probability", **entry}
    else:
        keep_evaluation(run, entry)
    if predictions is not None:
        write_atomically(predictions, "".join(line + "\n" for line in result.lines()))
        say(f"Translations written to {predictions}.")
    _print(result, entry, format)


def _print(result: "Evaluation", entry: dict[str, Any], format: str) -> None:
    if format == "json":
        out(json.dumps(entry, ensure_ascii=False, indent=2))
    else:
        print_evaluation(result)


def print_evaluation(result: "Evaluation") -> None:
    """The measures, their signatures and baselines, and the table by length."""
    from regard.tasks.core.evaluation import shown_unit

    rows, unit = [], shown_unit(result.unit)
    for name, value in result.measures.items():
        remark = result.signatures.get(name, "")
        if name == result.baselined:
            remark = ", ".join(f"{kind} {reached:.3f}" for kind, reached in result.baselines.items())
        rows.append([name, _shown(name, value), remark])
    out(table(["measure", f"{result.items} {unit}", ""], rows))
    if not result.lengths:
        return
    out()
    first, _, *names = result.lengths[0]
    cells = [
        [str(one[first]), str(one[result.unit]), *(_shown(name, one[name]) for name in names)] for one in result.lengths
    ]
    out(table([result.by, unit, *names], cells))


def _shown(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    return format(value, _FORMATS.get(name, ".4g"))
