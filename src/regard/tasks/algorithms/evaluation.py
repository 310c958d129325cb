"""How many bits a model answers wrongly, of the lengths of its training and of longer ones."""

from pathlib import Path
from typing import Any

from regard.errors import TooLong
from regard.metrics.bits import BitErrors
from regard.tasks.algorithms.predictor import AlgorithmsPredictor
from regard.tasks.algorithms.settings import SIXFOLD, TWICE, TestedSequences
from regard.tasks.core.config import check
from regard.tasks.core.evaluation import Evaluation


def evaluate_run(solver: AlgorithmsPredictor, run: Path, test: dict[str, Any]) -> Evaluation:
    """Answer drawn sequences of the lengths of training and of longer ones; lengths that cannot be read are reported.

    Args:
        solver: of the run.
        run: its folder.
        test: values of `TestedSequences`; {} for what the run held out.

    Raises:
        ConfigError: the test makes no sense.
    """
    tested, data = check(TestedSequences, test), solver.settings.data
    longer = [TWICE * data.longest, SIXFOLD * data.longest] if tested.lengths is None else tested.lengths
    trained = solver.errors(solver.held_out(tested.sequences, tested.seed))
    rows = {f"{data.shortest}–{data.longest}": _row(trained, tested.sequences)}
    measures, stopped = {"wrong_bits": trained.mean, "exact": trained.exact}, ""
    for length in longer:
        try:
            errors = solver.errors(solver.held_out(tested.sequences, tested.seed, length))
        except TooLong as error:  # which is the result for that length
            stopped = stopped or f"{length}: {error}"
            rows[str(length)] = _row(None, tested.sequences)
            continue
        rows[str(length)] = _row(errors, tested.sequences)
        for name, times in (("twice", TWICE), ("sixfold", SIXFOLD)):
            if length == times * data.longest:
                measures[f"wrong_bits_{name}"] = errors.mean
                measures[f"median_{name}"], measures[f"exact_{name}"] = errors.median, errors.exact
    return Evaluation(
        items=tested.sequences * sum(row["exact"] is not None for row in rows.values()),
        unit="sequences",
        measures=measures,
        baselines={"chance": trained.chance},
        baselined="wrong_bits",
        by="length",
        lengths=[{"length": name, **row} for name, row in rows.items()],
        notes=[f"nothing longer could be read. Length {stopped}"] if stopped else [],
        stopped=stopped,
    )


def _row(errors: BitErrors | None, sequences: int) -> dict[str, float | None]:
    """One length of the table; None where the model cannot read so much."""
    measured = {name: getattr(errors, name, None) for name in ("mean", "median", "accuracy", "exact", "chance")}
    return {"sequences": sequences, "wrong_bits": measured.pop("mean"), **measured}
