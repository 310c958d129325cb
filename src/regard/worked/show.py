"""A worked example as plain text: each step, the number computed, and the literature's beside it."""

import math

from rich.cells import cell_len

from regard.worked.example import Claim, Language, Number, Printed, Step, Text, Value, Work

_LARGE = 1e9
_WORDS = {
    "source": Text("source: ", "出处："),
    "given": Text("given: ", "已知："),
    "yours": Text("  (yours)", "（你给的）"),
    "printed": Text("literature: ", "文献："),
    "verdict": Text(" — ", " —— "),
    "true": Text("agrees", "一致"),
    "false": Text("DISAGREES", "不一致"),
    "yes": Text("yes", "是"),
    "no": Text("no", "否"),
    "compared": Text(
        "Compared with the literature: {good} of {count} agree.", "与文献核对：共 {count} 项，{good} 项一致。"
    ),
    "own": Text(
        "These are your own numbers: only what must hold for any numbers was compared.",
        "这里用的是你自己的数：只核对了对任何数都应成立的结论。",
    ),
}


def show(work: Work, language: Language = "en") -> str:
    """All of a worked example, ready to print; no line ends in a blank and no markup is in it."""
    worked = work.worked
    lines = [
        f"{worked.id}  {worked.title.to(language)}",
        f"    {_word('source', language)}{worked.source.to(language)}",
    ]
    for each in worked.inputs:
        mark = _word("yours", language) if each.name in work.own else ""
        option = f'--{each.name} "{work.texts[each.name]}"'
        lines.append(f"    {_word('given', language)}{option}  {each.meaning.to(language)}{mark}")
    for position, step in enumerate(work.steps, start=1):
        lines += ["", *_step(position, step, language)]
    return "\n".join([*lines, "", *_verdict(work, language)]) + "\n"


def _verdict(work: Work, language: Language) -> list[str]:
    """The last lines: how many comparisons there were and whether they came out."""
    agreed = [step.agrees for step in work.steps if step.agrees is not None]
    lines = [_word("own", language)] if work.own else []
    if agreed:
        lines.append(_word("compared", language).format(count=len(agreed), good=agreed.count(True)))
    return lines


def _step(position: int, step: Step, language: Language) -> list[str]:
    lines = [f"{position:>2}. {step.label.to(language)}    {step.formula}".rstrip()]
    lines += [f"      {line}" for line in _table(step, language)]
    if step.check is not None:
        verdict = _word("true" if step.agrees else "false", language)
        text = _printed(step.check, language)
        lines.append(f"    {_word('printed', language)}{text}{_word('verdict', language)}{verdict}")
    return lines


def _printed(check: Printed | Claim, language: Language) -> str:
    if isinstance(check, Claim):
        return check.text.to(language)
    return _inline(check.numbers, check.places)


def _inline(value: Value, places: int) -> str:
    """A value in one line, rows separated by semicolons."""
    if not isinstance(value, list):
        return digits(value, places)
    if value and isinstance(value[0], list):
        return "; ".join(_inline(row, places) for row in value)
    return ", ".join(digits(number, places) for number in value)


def _table(step: Step, language: Language) -> list[str]:
    """The value as lines of aligned columns, with the names of rows and columns where it has them."""
    value = step.value
    if isinstance(value, bool):
        return [_word("yes" if value else "no", language)]
    if not isinstance(value, list):
        return [digits(value, step.places)]
    matrix = value if value and isinstance(value[0], list) else [value]
    cells = [[digits(number, step.places) for number in row] for row in matrix]
    if step.columns is not None:
        cells.insert(0, list(step.columns))
    if step.rows is not None:
        names = ([""] if step.columns is not None else []) + list(step.rows)
        cells = [[name, *row] for name, row in zip(names, cells, strict=True)]
    widths = [max(cell_len(row[column]) for row in cells) for column in range(len(cells[0]))]
    return ["  ".join(_right(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def _right(cell: str, width: int) -> str:
    """Pad on the left to that many terminal columns; Chinese takes two per character."""
    return " " * (width - cell_len(cell)) + cell


def digits(number: Number, places: int) -> str:
    """A number to that many places; whole ones without a point, small ones as 2.7e-08, so that "0" is exactly 0."""
    if not math.isfinite(number):
        return str(number)
    if abs(number) >= _LARGE:
        return f"{number:.{places}e}"
    if number == int(number):
        return str(int(number))
    if abs(number) < 0.5 * 10**-places:
        return f"{number:.1e}"
    return f"{number:.{places}f}"


def _word(name: str, language: Language) -> str:
    return _WORDS[name].to(language)
