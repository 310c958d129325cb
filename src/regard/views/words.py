"""The phrases around the numbers, in each language of views."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Phrases:
    """The phrases of one language; `code` is its tag in HTML."""

    code: str
    not_an_effect: str
    no_data: str
    contents: str
    scale: str
    hint: str
    matrix: str
    shown_every: str


WORDS: dict[str, Phrases] = {
    "en": Phrases(
        code="en",
        not_an_effect="A weight is not an effect: it shows where the model looked, not what changed its answer.",
        no_data="no data",
        contents="Contents",
        scale="scale",
        hint="Point at a cell, or move between cells with the arrow keys, to read it here.",
        matrix="Matrix {number}",
        shown_every="Too many labels to draw: one in {step} is shown.",
    ),
    "zh": Phrases(
        code="zh-Hans",
        not_an_effect="权重不等于作用：它显示模型看了哪里，并不说明是什么改变了答案。",
        no_data="没有数据",
        contents="目录",
        scale="标尺",
        hint="把鼠标移到格子上，或用方向键在格子间移动，数值会显示在这里。",
        matrix="矩阵 {number}",
        shown_every="标签太多，每 {step} 个只画出一个。",
    ),
}
