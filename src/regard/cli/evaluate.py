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

_FORMATS = {"bleu": ".2f", "chrf": ".2f", "perplexity": ".2f", "entropy": ".2f", "exact": ".4f", "aer": ".4f"}

Assignments = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Test data of a task other than translation.", show_default=False),
]
Source = Annotated[Path | None, typer.Option(help="Source sentences; the run's held-out pairs if no files are given.")]
Tsv = Annotated[Path | None, typer.Option(help="Lines of source<TAB>target, in place of two files.")]
Jsonl = Annotated[Path | None, typer.Option(help='Lines of {"source": …, "target": …}, in place of two files.')]
Target = Annotated[Path | None, typer.Option(help="Their translations, line by line.")]
Links = Annotated[Path | None, typer.Option(help="True links, a line a pair: 0-0 1-2, or 1p2 for a possible one.")]
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
    from regard.tasks.core.runs import config_of

    task = str(config_of(run).get("task"))
    if task != "translation":
        _evaluate_other(task, run, settings or [], given, threads, format)
        return
    if settings:
        raise ConfigError(f"{settings[0]!r}: a translator is tested on files: --source and --target, --tsv, or --jsonl")
    if (source is None) != (target is None):
        raise ConfigError("give --source and --target together, or neither for the run's held-out pairs")
    files = [path for path in (source, tsv, jsonl) if path is not None]
    if len(files) > 1:
        raise ConfigError("choose one kind of test data: --source and --target, --tsv, or --jsonl")
    if links is not None and source is None and tsv is None:
        raise ConfigError("--links are of the test pairs: give --source and --target, or --tsv, too")
    if tsv is None and (columns, separator) != ("1,2", "\t"):
        raise ConfigError("--columns and --separator are of a table: name it with --tsv")
    if predictions is not None:
        refuse_folder(predictions)  # before everything is translated
        refuse_input(predictions, source, target, tsv, jsonl, links)
    begins = None if edges is None else sorted(whole_numbers("--edges", edges, least=1))
    search = search_from(
        run, beam=beam, max_length=max_length, length_penalty=length_penalty, coverage_penalty=coverage_penalty
    )

    from regard.data.translation.corpus import read_corpus
    from regard.data.translation.settings import CorpusSettings
    from regard.tasks.core.config import check
    from regard.tasks.core.evaluations import keep_evaluation
    from regard.tasks.translation.evaluation import evaluate as measure, held_out

    if files:
        tree = {
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
        tested = check(CorpusSettings, tree)
        pairs, name = read_corpus(tested), files[0].name
    else:
        pairs, name = held_out(run), "held out"
    translator = loaded(run, with_, mean, threads)
    result = measure(translator, pairs, search, batch, begins)
    for note in result.notes:
        warn(note)
    entry = {"data": name, "search": search.model_dump(mode="json"), **result.to_json()}
    if with_:
        entry = {"runs": [str(one) for one in (run, *with_)], "mean": mean or "probability", **entry}
    else:
        keep_evaluation(run, entry)
    if predictions is not None:
        write_atomically(predictions, "".join(one.text + "\n" for one in result.translations))
        say(f"Translations written to {predictions}.")
    _print(result, entry, format)


def _evaluate_other(
    task: str, run: Path, settings: list[str], given: list[str], threads: int | None, format: str
) -> None:
    """A run of any task but translation, whose test data are its own settings."""
    from regard.tasks.core.config import check, leaves, parse_assignments
    from regard.tasks.core.settings import settings_of

    own = ("--format", "--threads", "--debug", "--quiet")
    if others := [option for option in given if option not in own]:
        raise ConfigError(f"{others[0]} is for translation, and {run} is a run of {task}: write KEY=VALUE")
    tested = check(settings_of(task).tests, parse_assignments(settings)).model_dump(mode="json", exclude_unset=True)

    from regard.tasks.core.evaluations import keep_evaluation
    from regard.tasks.core.load import load
    from regard.tasks.core.task import find_task

    result = find_task(task).evaluate(load(run, threads=threads), run, tested)
    for note in result.notes:
        warn(note)
    name = ", ".join(f"{key}={value}" for key, value in leaves(tested)) or "held out"
    entry = {"data": name, "test": tested, **result.to_json()}
    keep_evaluation(run, entry)
    _print(result, entry, format)


def _print(result: "Evaluation", entry: dict[str, Any], format: str) -> None:
    if format == "json":
        out(json.dumps(entry, ensure_ascii=False, indent=2))
    else:
        print_evaluation(result)


def print_evaluation(result: "Evaluation") -> None:
    """The measures, their signatures and baselines, and the table by length."""
    rows = []
    for name, value in result.measures.items():
        remark = result.signatures.get(name, "")
        if name == result.baselined:
            remark = ", ".join(f"{kind} {reached:.3f}" for kind, reached in result.baselines.items())
        rows.append([name, _shown(name, value), remark])
    out(table(["measure", f"{result.items} {result.unit}", ""], rows))
    if not result.lengths:
        return
    out()
    first, _, *names = result.lengths[0]
    cells = [
        [str(one[first]), str(one[result.unit]), *(_shown(name, one[name]) for name in names)] for one in result.lengths
    ]
    out(table([result.by, result.unit, *names], cells))


def _shown(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    return format(value, _FORMATS.get(name, ".4g"))
