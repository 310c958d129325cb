"""`regard train`: from settings to a run folder."""

import os
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.app import app
from regard.cli.command import INTERRUPTED, Seed, Threads, command
from regard.cli.console import complain, notice, out, progress, say
from regard.errors import ConfigError

What = Annotated[
    str | None,
    typer.Argument(
        help="A task (translation, algorithms, reading, language, masked, classification, tagging, pointing, "
        "captioning), or a YAML file of settings or of a recipe.",
        show_default=False,
    ),
]
Assignments = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings, as in model.dropout=0.3.", show_default=False)
]
Source = Annotated[str | None, typer.Option(help="Source sentences, one per line.")]
Target = Annotated[str | None, typer.Option(help="Their translations, line by line.")]
ValidationSource = Annotated[str | None, typer.Option(help="Source of the validation.")]
ValidationTarget = Annotated[str | None, typer.Option(help="Target of the validation.")]
Run = Annotated[Path | None, typer.Option(help="The run's folder. [default: the next free runs/TASK-N]")]
Data = Annotated[
    Path | None, typer.Option(help="Folder of a recipe's data files; or a task's file, where it takes one.")
]
Attention = Annotated[str | None, typer.Option(help="The score: additive, general, dot, …; none for no attention.")]
Resume = Annotated[Path | None, typer.Option(help="Continue this run, bit for bit.", show_default=False)]
PrintConfig = Annotated[bool, typer.Option("--print-config", help="Print all settings, explained, and leave.")]


@command(
    app,
    "train",
    examples="""
    regard train translation --source train.de.gz --target train.en.gz --run runs/de-en
    regard train translation --source a.txt --target b.txt --attention general model.dropout=0.3 training.minutes=5
    regard train translation data.tsv=fra-eng.zip/fra.txt data.columns=[2,1] --run runs/fr-en
    regard train reading --data questions.json --run runs/reader
    regard train settings.yaml seed=3
    regard train --resume runs/de-en
    regard train translation --print-config
    torchrun --nproc-per-node 2 -m -- regard train translation --source a.txt --target b.txt --run runs/two
    """,
)
def train(
    what: What = None,
    settings: Assignments = None,
    source: Source = None,
    target: Target = None,
    validation_source: ValidationSource = None,
    validation_target: ValidationTarget = None,
    attention: Attention = None,
    data: Data = None,
    run: Run = None,
    resume: Resume = None,
    seed: Seed = None,
    threads: Threads = None,
    print_config: PrintConfig = False,
) -> None:
    """Train a model.

    After Ctrl-C, or a kill at any moment, --resume continues as if nothing had happened.
    """
    from regard.tasks.core.config import as_yaml, check, merge, parse_assignments, put
    from regard.tasks.core.settings import settings_of

    assignments = list(settings or [])
    if resume is not None and what is not None:
        assignments, what = [what, *assignments], None
    if resume is not None and run is not None:
        raise ConfigError("--run names a new run and --resume an old one; give one of them")
    if resume is None and what is None:
        raise ConfigError("say what to train: a task (regard train translation …) or a YAML file of settings")

    tree = _start(what, resume, data)
    options = {
        "data.source": source,
        "data.target": target,
        "data.validation.source": validation_source,
        "data.validation.target": validation_target,
        "model.attention": attention,
        "seed": seed,
        "threads": threads,
    }
    given: dict[str, Any] = {}
    for key, value in options.items():
        if value is not None:
            put(given, key.split("."), value)
    tree = merge(merge(tree, given), parse_assignments(assignments))
    kind = settings_of(str(tree.get("task", "")))
    if print_config:
        out(as_yaml(check(kind, tree)).strip("\n"))
        return
    from regard.tasks.core.fit import fit, is_first
    from regard.tasks.core.task import find_task

    checked = check(kind, tree, also=find_task(tree).faults)
    folder = resume or run or _free(checked.task)

    if is_first():
        say(f"{'Continuing' if resume else 'Training'} {checked.task} in {folder}")
    try:
        results = fit(checked, folder, resume=resume is not None, progress=progress(), say=notice)
    except KeyboardInterrupt as stop:  # before the first update; afterwards training saves its place and says so itself
        complain(f"stopped. Continue with: regard train --resume {shlex.quote(str(folder))}")
        raise typer.Exit(INTERRUPTED) from stop
    if not is_first():
        return
    out(f"{checked.task} trained for {results['steps']} steps; the best weights are in {folder}")
    for name, value in results["best"].items():
        out(f"{name}\t{value:.6g}")


def _start(what: str | None, resume: Path | None, data: Path | None) -> dict[str, Any]:
    """The settings before those of the command line: a run's, a file's, a recipe's, or just the task."""
    from regard.tasks.core.config import read_yaml
    from regard.tasks.core.settings import settings_of, task_names

    if resume is not None:
        from regard.tasks.core.runs import config_of

        return config_of(resume)
    assert what is not None
    if not what.lower().endswith((".yaml", ".yml")):
        if what not in task_names() and Path(what).exists():
            raise ConfigError(f"{what} is neither a task nor a file of settings, whose name ends in .yaml or .yml")
        return {"task": what} if data is None else {"task": what, **settings_of(what).of_file(data)}
    tree = read_yaml(what)
    if "config" in tree and "bands" in tree:
        from regard.tasks.experiments.experiment import DATA, resolved

        tree = resolved(tree["config"], data)
        if data is None and DATA in str(tree):
            raise ConfigError(f"{what} is a recipe for data files of its own; name their folder: --data DIR")
    if "task" not in tree:
        raise ConfigError(f"{what}: does not say what to train; add a line such as `task: translation`")
    return tree


def _free(task: str) -> Path:
    """The first folder runs/TASK-N that is not there yet."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError("several processes train one run; name its folder: --run DIR")
    number = 1
    while (Path("runs") / f"{task}-{number}").exists():
        number += 1
    return Path("runs") / f"{task}-{number}"
