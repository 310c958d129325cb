"""W4 by a trained translator: each step it took, beside the encyclopaedia's numbers for "I love you" → "je t'aime".

The numbers come from the caller, who has the translator; here they are laid out.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from rich.cells import cell_len

from regard.worked.example import Language, Text
from regard.worked.inputs import read
from regard.worked.show import digits
from regard.worked.table import find, work

SHOWN = 4
"""Numbers of a vector that are printed, before its length."""

_TEXTS = {
    "by": Text("W4  {source} → {target}, by {run}", "W4  {source} → {target}，由 {run} 翻译"),
    "sizes": Text(
        "    words {word} wide, states {states}, score {score}, {normalizer}; of a vector the first {shown} "
        "numbers, and how long it is",
        "    词向量宽 {word}，状态宽 {states}，打分 {score}，{normalizer}；向量只列前 {shown} 个数和长度",
    ),
    "start": Text(
        "    the decoder starts from the encoder's last states; the context is the states mixed by the weights",
        "    解码器从编码器最后的状态开始；上下文是按权重混合的编码器状态",
    ),
    "reads": Text("reads", "读入"),
    "writes": Text("writes", "写出"),
    "state": Text("state", "状态"),
    "scores": Text("scores", "打分"),
    "weights": Text("weights", "权重"),
    "article": Text("article: {row}", "文中：{row}"),
    "context": Text("context", "上下文"),
    "verdict": Text(
        "{good} of {count} steps that write what the article writes attend most to the article's source word.",
        "与文中写出相同内容的 {count} 步里，有 {good} 步最关注的源词与文中相同。",
    ),
    "other": Text(
        "The article writes je t' aime for I love you; nothing here is its own, so there is nothing to compare.",
        "文中把 I love you 译成 je t' aime；这里没有相同的词，无从比较。",
    ),
    "scale": Text(
        "Scores can be compared up to a number added to all of a row, which the weights do not show.",
        "打分只在每行同加一个数的意义下可比，权重看不出这个数。",
    ),
}


@dataclass(frozen=True)
class Read:
    """One step of the encoder: a token of the source, and its hidden state."""

    word: str
    state: list[float]


@dataclass(frozen=True)
class Written:
    """One step of the decoder.

    Attributes:
        word: the token written.
        probability: of that token.
        state: the decoder's, the query of the attention.
        scores: of each source token, before the normalizer.
        weights: what the normalizer makes of them.
        context: the context vector.
    """

    word: str
    probability: float
    state: list[float]
    scores: list[float]
    weights: list[float]
    context: list[float]


@dataclass(frozen=True)
class Translated:
    """A translation step by step.

    Attributes:
        run: what is called the translator.
        source, target: both texts.
        word_dim: width of a word vector.
        score, normalizer: names of the attention's parts.
        read, written: the steps, EOS included.
        notes: what was done to the texts.
    """

    run: str
    source: str
    target: str
    word_dim: int
    score: str
    normalizer: str
    read: list[Read]
    written: list[Written]
    notes: list[str]


class Article(NamedTuple):
    """The article's scores and weights of one of its steps, by source word."""

    scores: list[float]
    weights: list[float]


def to_json(steps: Translated) -> dict[str, Any]:
    """All numbers, with the article's beside each step that writes a word of it."""
    plain = asdict(steps)
    for step, article in zip(plain["written"], _beside(steps), strict=True):
        step["article"] = None if article is None else article._asdict()
    return plain


def show_translated(steps: Translated, language: Language = "en") -> str:
    """The table as plain text, ready to print."""
    lines = [
        _text("by", language, source=steps.source, target=steps.target, run=steps.run),
        _text(
            "sizes",
            language,
            word=steps.word_dim,
            states=len(steps.read[0].state),
            score=steps.score,
            normalizer=steps.normalizer,
            shown=SHOWN,
        ),
        _text("start", language),
        "",
    ]
    margin = len(str(len(steps.read) + len(steps.written)))
    for number, reading in enumerate(steps.read, 1):
        lines.append(f"{number:>{margin}}. {_text('reads', language)}  {reading.word}")
        lines += _rows([(_text("state", language), [_vector(f"h{number}", reading.state)])])
    beside = _beside(steps)
    for number, (writing, article) in enumerate(zip(steps.written, beside, strict=True), 1):
        what = f"{writing.word}  p = {digits(writing.probability, 4)}"
        lines += ["", f"{len(steps.read) + number:>{margin}}. {_text('writes', language)}  {what}"]
        lines += _rows([(_text("state", language), [_vector(f"s{number}", writing.state)])])
        lines += _rows(_attention_rows(steps, writing, article, language))
        lines += _rows([(_text("context", language), [_vector(f"c{number}", writing.context)])])
    return "\n".join([*lines, "", *_verdict(steps, beside, language)]) + "\n"


def _verdict(steps: Translated, beside: list[Article | None], language: Language) -> list[str]:
    """The last lines: in how many of the steps that can be compared the two attend most to the same word."""
    same = [
        _most(writing.weights) == _most(article.weights)
        for writing, article in zip(steps.written, beside, strict=True)
        if article is not None
    ]
    if not same:
        return [_text("other", language)]
    return [_text("verdict", language, good=sum(same), count=len(same)), _text("scale", language)]


def _attention_rows(
    steps: Translated, writing: Written, article: Article | None, language: Language
) -> list[tuple[str, list[str]]]:
    """The table of one step's attention: one column per source token; the article's rows under ours."""
    rows = [("", [reading.word for reading in steps.read])]
    for name in ("scores", "weights"):
        label = _text(name, language)
        rows.append((label, [digits(number, 4) for number in getattr(writing, name)]))
        if article is not None:
            numbers = [digits(number, 4) for number in getattr(article, name)]
            rows.append((_text("article", language, row=label), numbers))
    return rows


def _beside(steps: Translated) -> list[Article | None]:
    """The article's scores and weights for each step that writes one of its words, or a part of one.

    They stand beside a run's only where the source is the article's three words, one token each.
    """
    row = find("W4")
    given, _, _ = read(row.id, row.inputs, {})
    count, weights = given["length"], work("W4").value("weights, padding masked")
    assert isinstance(weights, list)
    tokens = [reading.word.lower() for reading in steps.read[:count]]
    if tokens != [word.lower() for word in given["source"]]:
        return [None] * len(steps.written)
    # Which word of the article each of its characters is in: tokens may cut "t'" in two.
    letters = [(letter, word) for word, text in enumerate(given["target"]) for letter in text.lower()]
    beside: list[Article | None] = []
    for written in steps.written:
        token = written.word.strip("▁").lower()
        if letters and token and [letter for letter, _ in letters[: len(token)]] == list(token):
            word = letters[0][1]
            letters = letters[len(token) :]
            beside.append(Article(given["scores"][word][:count], weights[word][:count]))
        else:
            letters = []
            beside.append(None)
    return beside


def _most(weights: list[float]) -> int:
    return max(range(len(weights)), key=weights.__getitem__)


def _vector(name: str, numbers: list[float]) -> str:
    first = "  ".join(digits(number, 4) for number in numbers[:SHOWN])
    more = "  …" if len(numbers) > SHOWN else ""
    length = digits(math.sqrt(math.fsum(number * number for number in numbers)), 4)
    return f"{name} = {first}{more}  |{name}| = {length}"


def _rows(rows: list[tuple[str, list[str]]]) -> list[str]:
    """Aligned lines: labels on the left, columns right-aligned."""
    width = max(cell_len(label) for label, _ in rows)
    columns = max(len(cells) for _, cells in rows)
    widths = [max(cell_len(cells[at]) for _, cells in rows if at < len(cells)) for at in range(columns)]
    lines = []
    for label, cells in rows:
        padded = [" " * (wide - cell_len(cell)) + cell for cell, wide in zip(cells, widths, strict=False)]
        lines.append(("      " + label + " " * (width - cell_len(label)) + "  " + "  ".join(padded)).rstrip())
    return lines


def _text(name: str, language: Language, **values: Any) -> str:
    return _TEXTS[name].to(language).format(**values)
