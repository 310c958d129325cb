"""Run a study's rows, and report the outcomes in one table.

A row is run by `reproduce`, as a recipe is. What is finished is read from the runs' folders, so a study can be stopped,
continued, or run by several processes, each with rows of its own.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.errors import RegardError
from regard.tasks.core.fit import Say
from regard.tasks.experiments.reproduce import finished, reproduce
from regard.tasks.experiments.studies import TRAINING_COLUMNS, Row, Study
from regard.training.interrupt import Interrupted
from regard.training.progress import Reporter
from regard.training.run.run import RunFolder

NOT_RUN = "not run"


@dataclass(frozen=True)
class Outcome:
    """The outcome of one row with one seed.

    Attributes:
        row: of the study.
        seed: of the run.
        values: by column, those that there are: a model without attention has no entropy.
        lengths: the measures by length, as `Evaluation.lengths`.
        signatures: of the measures that have one.
        failure: why there are no values; None if there are.
        unit, by, stopped: what was counted, what the rows of `lengths` differ in, and from where on they could not be
            read, as in an `Evaluation`.
    """

    row: Row
    seed: int
    values: dict[str, float] = field(default_factory=dict)
    lengths: list[dict[str, Any]] = field(default_factory=list)
    signatures: dict[str, str] = field(default_factory=dict)
    failure: str | None = None
    unit: str = "items"
    by: str = "length"
    stopped: str = ""


def run_study(
    study: Study,
    folder: Path,
    *,
    seeds: Sequence[int],
    rows: Sequence[Row],
    data: Path | None = None,
    threads: int | None = None,
    progress: str | Reporter = "auto",
    say: Say = print,
    warn: Say = print,
) -> list[Outcome]:
    """Run rows that are not finished, and return the outcomes of all rows.

    Args:
        study: `experiment.locate` has found its data.
        folder: a run's is `folder/ROW/seed-N`.
        seeds: of the runs, for each row.
        rows: those to run; of the others only what is finished is reported.
        data: the folder of the study's data files.
        threads: to compute with, in place of the settings' own.
        progress: see `training.loop.train`.
        say: called with what is being run.
        warn: called with what was noticed, and what failed.

    Returns:
        One outcome per row and seed, in the study's order. One that fails says so, and the others are run all the same.
    """

    def outcome_of(row: Row, seed: int) -> Outcome:
        experiment, run = study.experiment(row), folder / row.name / f"seed-{seed}"
        options: dict[str, Any] = {"seed": seed, "data": data, "threads": threads}
        try:
            entry = finished(experiment, run, **options)
            if entry is None and row in rows:
                say(f"{row.name}, seed {seed}: {row.title}")
                reproduce(experiment, run, **options, progress=progress, say=warn)
                entry = finished(experiment, run, **options)
            return _outcome(row, seed, run, entry)
        except Interrupted:
            raise
        except Exception as error:  # whatever it is: one row must not cost the hours of the others
            failure = str(error) if isinstance(error, RegardError | OSError) else f"{type(error).__name__}: {error}"
            warn(f"{row.name}, seed {seed}, failed: {failure}")
            return Outcome(row, seed, failure=failure)

    return [outcome_of(row, seed) for row in study.rows for seed in seeds]


def _outcome(row: Row, seed: int, run: Path, entry: dict[str, Any] | None) -> Outcome:
    if entry is None:
        return Outcome(row, seed, failure="begun, not finished" if RunFolder(run).config.is_file() else NOT_RUN)
    values = {**_training(RunFolder(run).read_results()), **entry["measures"]}
    stopped = entry.get("stopped", "")
    return Outcome(row, seed, values, entry["lengths"], entry["signatures"], None, entry["unit"], entry["by"], stopped)


def _training(results: dict[str, Any]) -> dict[str, float]:
    """What a run's results say of its training, by column."""
    values = {name: results[name] for name in TRAINING_COLUMNS if not name.endswith("minutes")}
    values["minutes"] = results["seconds"] / 60
    values["processor_minutes"] = results["processor_seconds"] / 60
    return values


def by_row(outcomes: Sequence[Outcome]) -> Iterator[tuple[Row, list[Outcome]]]:
    """The outcomes of each row together, one per seed."""
    rows = list(dict.fromkeys(one.row.name for one in outcomes))
    for name in rows:
        those = [one for one in outcomes if one.row.name == name]
        yield those[0].row, those


def mean(values: Sequence[float | None]) -> float:
    """The mean of what there is; NaN of nothing."""
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if there else math.nan
