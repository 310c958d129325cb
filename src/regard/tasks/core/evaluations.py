"""What was measured of a run, kept in its folder: one entry per test set, the newest wins."""

import json
from pathlib import Path
from typing import Any

from regard.errors import RunError
from regard.files import write_json

EVALUATIONS = "evaluations.json"


def read_evaluations(run: Path) -> list[dict[str, Any]]:
    """The evaluations of a run, in the order in which their test sets first came.

    Raises:
        RunError: their file is damaged.
    """
    file = run / EVALUATIONS
    if not file.is_file():
        return []
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise RunError(f"{file} is damaged: {error}; delete it and evaluate again") from error
    if not isinstance(entries, list) or not all(map(_is_entry, entries)):
        raise RunError(f"{file} is damaged: it is no list of evaluations; delete it and evaluate again")
    return entries


def _is_entry(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("data"), str) and isinstance(value.get("measures"), dict)


def keep_evaluation(run: Path, entry: dict[str, Any]) -> None:
    """Add an entry, in the place of an earlier one on the same `data`."""
    entries = read_evaluations(run)
    places = [place for place, old in enumerate(entries) if old["data"] == entry["data"]]
    if places:
        entries[places[0]] = entry
    else:
        entries.append(entry)
    write_json(run / EVALUATIONS, entries)


def forget_evaluation(run: Path, data: str) -> None:
    """Take out the entry on that `data`, if there is one, so that it is not taken for one of the run as it is now."""
    entries = read_evaluations(run)
    kept = [entry for entry in entries if entry["data"] != data]
    if len(kept) < len(entries):
        write_json(run / EVALUATIONS, kept)
