"""`regard study`: rows of settings on equal terms, in one table."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.cli.app import app
from regard.cli.command import FAILED, Threads, command, whole_numbers
from regard.cli.console import colored, notice, out, progress, say, table, warn
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.tasks.experiments.studies import Row, Study

Name = Annotated[str | None, typer.Argument(help="A study, or a YAML file of one.", show_default=False)]
DataFolder = Annotated[Path | None, typer.Option("--data", help="Folder that holds the study's data files.")]
Runs = Annotated[
    Path | None, typer.Option("--run", help="Where the runs, the table and the picture go. [default: runs/NAME]")
]
Seeds = Annotated[str, typer.Option("--seeds", help="Seeds to train each row with, separated by commas.")]
Only = Annotated[
    str | None, typer.Option("--only", help="Run these rows, separated by commas; of the others show what is finished.")
]
Unverified = Annotated[bool, typer.Option("--unverified", help="Continue with data files of another sha256.")]
Language = Annotated[
    Literal["en", "zh"],
    typer.Option("--lang", help="Language of the words around the numbers; what a study says itself stays English."),
]
List = Annotated[bool, typer.Option("--list", help="Print the studies, or all about the one that is named, and leave.")]


@command(
    app,
    "study",
    examples="""
    regard study --list
    regard study multi30k-length --list
    regard study multi30k-attentions --data ~/multi30k
    regard study multi30k-attentions --data ~/multi30k --only none,additive --seeds 0,1,2
    """,
)
def study(
    name: Name = None,
    data: DataFolder = None,
    run: Runs = None,
    seeds: Seeds = "0",
    threads: Threads = None,
    only: Only = None,
    unverified: Unverified = False,
    lang: Language = "en",
    list_: List = False,
) -> None:
    """Train rows of settings on equal terms and compare them in one table.

    A run that was begun continues, and a finished one is not run again. Of several processes each can run rows of its
    own. A row that fails is shown as such; the others are run all the same, and the exit code is 1.
    """
    if list_:
        _print_study(name, lang) if name else _print_studies(lang)
        return
    if name is None:
        raise ConfigError("name a study, or see them all: regard study --list")
    numbers = whole_numbers("--seeds", seeds)

    from regard.tasks.experiments.experiment import locate
    from regard.tasks.experiments.studies import find_all

    studies = find_all(name)
    chosen = [one.choose(None if only is None else [part.strip() for part in only.split(",")]) for one in studies]
    for one in studies:
        locate(one, data, unverified=unverified, warn=warn)
    folder = run or Path("runs") / studies[0].name
    whole = [
        _run(one, rows, folder / one.name if place else folder, data, numbers, threads, lang)
        for place, (one, rows) in enumerate(zip(studies, chosen, strict=True))
    ]
    if not all(whole):
        raise typer.Exit(FAILED)


def _run(
    found: "Study",
    rows: list["Row"],
    folder: Path,
    data: Path | None,
    seeds: list[int],
    threads: int | None,
    lang: str,
) -> bool:
    """Run rows of one study, and show and write what there is of all; whether none of them failed."""
    from regard.files import write_atomically, write_json
    from regard.tasks.experiments.study import run_study
    from regard.tasks.experiments.study_table import lengths_view, markdown, table as cells, to_json
    from regard.views.terminal.terminal import terminal
    from regard.views.write import write

    say(f"{found.title}: {len(rows) * len(seeds)} runs, about {found.minutes:g} minutes each.")
    outcomes = run_study(
        found, folder, seeds=seeds, rows=rows, data=data, threads=threads, progress=progress(), say=say, warn=notice
    )
    out(table(*cells(found, outcomes, lang)))
    written = [
        write_atomically(folder / "table.md", markdown(found, outcomes, lang)),
        write_json(folder / "table.json", to_json(found, outcomes)),
    ]
    for place, lengths in enumerate(found.lengths):
        view = lengths_view(found, lengths, outcomes, lang)
        out()
        out(terminal(view, width=shutil.get_terminal_size().columns, color=colored()))
        file = f"by_length_{lengths.measure}" if place else "by_length"
        written += [write(view, folder / f"{file}.{ending}") for ending in ("png", "svg", "html")]
    say("Written: " + ", ".join(map(str, written)))
    asked = {row.name for row in rows}
    return not any(one.failure for one in outcomes if one.row.name in asked)


_LISTED = {"en": ["study", "minutes per row", "rows", "question"], "zh": ["研究", "每行分钟", "行数", "问题"]}
_MORE = {
    "en": "All about one of them: regard study NAME --list",
    "zh": "某项研究的全部内容：regard study NAME --list --lang zh",
}
_HEADS = {"en": ["row", "", "its own settings"], "zh": ["行", "", "自己的设置"]}
_ABOUT = {
    "equal": {"en": "equal       ", "zh": "同等条件    "},
    "minutes": {"en": "minutes     {:g} per row and seed", "zh": "分钟        每行每个种子 {:g}"},
    "data": {"en": "data        ", "zh": "数据        "},
    "settings": {"en": "settings    ", "zh": "设置        "},
}


def _print_studies(lang: str) -> None:
    from regard.tasks.experiments.studies import shipped

    lines = [[one.name, f"{one.minutes:g}", str(len(one.rows)), one.title] for one in shipped()]
    out(table(_LISTED[lang], lines))
    say(_MORE[lang])


def _print_study(name: str, lang: str) -> None:
    from regard.tasks.core.config import one_line
    from regard.tasks.experiments.studies import find

    found, words = find(name), {key: each[lang] for key, each in _ABOUT.items()}
    out(f"{found.name}: {found.title}")
    for term in found.terms:
        out(words["equal"] + " ".join(term.split()))
    out(words["minutes"].format(found.minutes))
    if found.data is not None:
        out(words["data"] + " ".join(found.data.origin.split()))
    out(words["settings"] + one_line(found.config))
    out()
    out(table(_HEADS[lang], [[row.name, row.title, one_line(row.config)] for row in found.rows]))
