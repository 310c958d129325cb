"""What was measured of a run, for every task."""

from dataclasses import dataclass, field
from typing import Any

_SHOWN = {"pieces": "tokens", "pictures": "images"}


def shown_unit(unit: str) -> str:
    """What tables call a unit. Units are keys of an evaluation's JSON too, and two of them keep an older name there."""
    return _SHOWN.get(unit, unit)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What was measured. A task that returns more than numbers has its own subclass.

    Attributes:
        items: how many were tested.
        unit: what they are, in the plural: pairs, sequences, stories.
        measures: by name, those that `RunSettings.measures` of the task lists and that could be measured.
        signatures: what makes a measure comparable, for those that have one.
        baselines: what is reached without learning, by name.
        baselined: the measure that the baselines are of.
        by: what the rows of `lengths` differ in, as the heading of their first column.
        lengths: rows of a table, all with the same keys: first the row's name, then `unit`: how many items, then
            measures; None for what cannot be measured.
        notes: what a reader must know, such as lines that were cut.
        stopped: the row of `lengths` from which on items are longer than the model can read, and its error; or "".
    """

    items: int
    unit: str
    measures: dict[str, float]
    signatures: dict[str, str] = field(default_factory=dict)
    baselines: dict[str, float] = field(default_factory=dict)
    baselined: str = ""
    by: str = "length"
    lengths: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    stopped: str = ""

    def lines(self) -> list[str]:
        """What the model wrote, one line per item, where that is kept."""
        return []

    def to_json(self) -> dict[str, Any]:
        """What was measured, as plain values."""
        return {
            self.unit: self.items,
            "unit": self.unit,
            "measures": self.measures,
            "signatures": self.signatures,
            "baselines": self.baselines,
            "baselined": self.baselined,
            "by": self.by,
            "lengths": self.lengths,
            "notes": self.notes,
            "stopped": self.stopped,
        }
