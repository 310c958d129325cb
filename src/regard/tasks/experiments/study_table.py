"""The outcomes of a study, as people read them: a table, the same as Markdown and JSON, and lines by length."""

import math
from collections.abc import Sequence
from typing import Any

from regard.errors import cut
from regard.tasks.core.evaluation import shown_unit
from regard.tasks.experiments.studies import Lengths, Study
from regard.tasks.experiments.study import Outcome, by_row, mean
from regard.views.view import Matrix, View

_NONE, _STOPS = "–", "stops"
_REMARK = 60
"""Characters of a failure that the table shows; all of it is in the JSON."""

_HEADINGS: dict[str, tuple[str, str]] = {
    "bleu": ("BLEU", ".2f"),
    "chrf": ("chrF", ".2f"),
    "exact": ("exact", ".4f"),
    "perplexity": ("perplexity", ".2f"),
    "entropy": ("entropy", ".2f"),
    "aer": ("AER", ".3f"),
    "tokens_per_second": ("tokens/s", ",.0f"),
    "tokens_per_processor_second": ("tokens/processor s", ",.0f"),
    "parameters": ("parameters", ",.0f"),
    "steps": ("steps", ",.0f"),
    "minutes": ("minutes", ".1f"),
    "processor_minutes": ("processor min.", ".1f"),
}
"""What a column is called, and how its numbers are written; others are called by their names."""


def table(study: Study, outcomes: Sequence[Outcome], language: str = "en") -> tuple[list[str], list[list[str]]]:
    """Heads and rows; with several seeds a cell is their mean, then the least and the greatest.

    Args:
        study: whose columns are shown.
        outcomes: of its rows.
        language: of the heads, en or zh; the study's own texts, and failures, are not translated.
    """
    heads = [_word("row", language), "", *(_heading(column, language) for column in study.columns)]
    remarks = any(one.failure or one.stopped for one in outcomes)
    rows = []
    for row, those in by_row(outcomes):
        cells = [_cell(column, [one.values.get(column) for one in those]) for column in study.columns]
        rows.append([row.name, row.title, *cells, *([_remark(those)] if remarks else [])])
    return heads + [_word("remark", language)] * remarks, rows


def lengths_view(study: Study, lengths: Lengths, outcomes: Sequence[Outcome], language: str = "en") -> View:
    """A measure by length: one line per row, the mean over its seeds."""
    shown = [
        (row, those)
        for row, those in by_row(outcomes)
        if (lengths.rows is None or row.name in lengths.rows) and any(one.lengths for one in those)
    ]
    every = [one for _, those in shown for one in those]
    first = max(every, key=lambda one: len(one.lengths), default=None)  # one that stops may have fewer rows
    buckets = first.lengths if first is not None else []
    column = next(iter(buckets[0])) if buckets else ""
    places = [bucket[column] for bucket in buckets]
    labels = list(map(str, places))
    values = [
        [
            mean([bucket.get(lengths.measure) for one in those for bucket in one.lengths if bucket[column] == place])
            for place in places
        ]
        for _, those in shown
    ]
    by, unit = (first.by, first.unit) if first is not None else ("length", "items")
    axes = {"by": _word(by, language), "unit": _word(shown_unit(unit), language)}
    matrix = Matrix(
        values,
        [row.title for row, _ in shown],
        labels,
        _heading(lengths.measure, language),
        _word("model", language),
        axes["by"],
    )
    counts = ", ".join(f"{label}: {bucket[unit]:,}" for label, bucket in zip(labels, buckets, strict=True))
    notes = [_COUNTS[language].format(counts=counts, **axes)] if counts else []
    return View("lines", study.title, [matrix], notes, language)


_COUNTS = {"en": "Test {unit} by {by}: {counts}.", "zh": "各长度（{by}）的测试{unit}数：{counts}。"}
_BY = {"en": "{measure} by {by}:", "zh": "{measure}，按{by}："}
_AT = {"en": "{row} stops at {why}", "zh": "{row} 止于 {why}"}
_CHINESE = {
    "model": "模型",
    "source words": "原文词数",
    "length": "长度",
    "items": "项",
    "pairs": "句对",
    "sequences": "序列",
    "stories": "故事",
    "sentences": "句子",
    "tokens": "词元",
    "row": "行",
    "remark": "备注",
    "exact": "完全一致",
    "perplexity": "困惑度",
    "entropy": "熵",
    "accuracy": "正确率",
    "loss": "损失",
    "tokens/s": "词元/秒",
    "tokens/processor s": "词元/处理器秒",
    "parameters": "参数",
    "steps": "步数",
    "minutes": "分钟",
    "processor min.": "处理器分钟",
}


def _word(english: str, language: str) -> str:
    return _CHINESE.get(english, english) if language == "zh" else english


def _heading(column: str, language: str = "en") -> str:
    return _word(_HEADINGS[column][0] if column in _HEADINGS else column.replace("_", " "), language)


def _format(column: str) -> str:
    return _HEADINGS[column][1] if column in _HEADINGS else ".4g"


def markdown(study: Study, outcomes: Sequence[Outcome], language: str = "en") -> str:
    """The table, what is equal for all rows, how BLEU was computed, and the measure by length, as a Markdown file."""
    blocks = [f"# {study.title}", _markdown_table(*table(study, outcomes, language))]
    blocks.append("\n".join(f"- {' '.join(term.split())}" for term in study.terms))
    signatures = {name: text for one in outcomes for name, text in one.signatures.items()}
    blocks += [f"{_heading(name, language)}: `{text}`" for name, text in signatures.items() if name in study.columns]
    stopped = {row.title: next((one.stopped for one in those if one.stopped), "") for row, those in by_row(outcomes)}
    for lengths in study.lengths:
        view = lengths_view(study, lengths, outcomes, language)
        [matrix] = view.matrices
        written = _format(lengths.measure)
        rows = [
            [label, *(_written(value, written, _STOPS if stopped[label] else _NONE) for value in values)]
            for label, values in zip(matrix.rows, matrix.values.tolist(), strict=True)
        ]
        blocks += [
            _BY[language].format(measure=matrix.title, by=matrix.column_axis),
            _markdown_table(["", *matrix.columns], rows),
            *view.notes,
        ]
    blocks += [_AT[language].format(row=title, why=" ".join(why.split())) for title, why in stopped.items() if why]
    return "\n\n".join(blocks) + "\n"


def to_json(study: Study, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Everything, each seed by itself, as plain values."""
    return {
        "study": study.name,
        "title": study.title,
        "terms": [" ".join(term.split()) for term in study.terms],
        "columns": list(study.columns),
        "rows": [
            {
                "row": one.row.name,
                "title": one.row.title,
                "settings": one.row.config,
                "seed": one.seed,
                "values": one.values,
                "lengths": one.lengths,
                "signatures": one.signatures,
                "failure": one.failure,
                "stopped": one.stopped,
            }
            for one in outcomes
        ],
    }


def _cell(column: str, values: Sequence[float | None]) -> str:
    written = _format(column)
    there = [value for value in values if value is not None]
    middle = _written(mean(there), written)
    if len(there) < 2 or min(there) == max(there):
        return middle
    return f"{middle} ({_written(min(there), written)}–{_written(max(there), written)})"


def _written(value: float, written: str, absent: str = _NONE) -> str:
    return absent if math.isnan(value) else format(value, written)


def _remark(outcomes: Sequence[Outcome]) -> str:
    failed = [one for one in outcomes if one.failure or one.stopped]
    lines = [" ".join((one.failure or f"stops at {one.stopped}").split()) for one in failed]
    if len(outcomes) > 1:
        lines = [f"seed {one.seed}: {line}" for one, line in zip(failed, lines, strict=True)]
    return cut("; ".join(lines), _REMARK)


def _markdown_table(heads: list[str], rows: list[list[str]]) -> str:
    """Numbers to the right, as the columns after the first are."""
    lines = [heads, ["---", *("---:" for _ in heads[1:])], *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
