"""Prints the family as Markdown, in English and in Chinese."""

from typing import Literal

from regard.attention.family.family import System, Text, family

Language = Literal["en", "zh"]

COLUMNS = (
    Text("system", "系统"),
    Text("kind", "类别"),
    Text("score", "打分"),
    Text("mask", "掩码"),
    Text("normalize", "归一化"),
    Text("refocus", "再聚焦"),
    Text("read", "读取"),
    Text("its attention here", "本库中的写法"),
    Text("the whole system", "完整系统"),
)

KINDS = {
    "soft": Text("soft", "软性"),
    "hard": Text("hard", "硬性"),
    "global": Text("global", "全局"),
    "local": Text("local", "局部"),
    "self": Text("self", "自注意力"),
    "cross": Text("cross", "交叉"),
}

HEAD = Text(
    """# The family

Attention is four steps: score, normalize, refocus, read. Every system is one row of choices, one for each step.
This page is printed from the code's own table (`regard.family()`); a test compares the two.
""",
    """# 注意力家族

注意力分四步：打分、归一化、再聚焦、读取。每一步都有几种选择，每个系统就是一行选择。
本页由代码中的表（`regard.family()`）打印而成，并有测试逐字节比对。
""",
)

TAIL = Text(
    """## The words of the column "kind"

- **soft**: the context is an expectation under the weights, differentiable throughout. **hard**: one position is taken,
  by the largest score or by a draw, and learns by REINFORCE or a straight-through gradient.
- **global**: every position may be read. **local**: a window around a position, given or predicted.
- **self**: queries and keys come from the same sequence. **cross**: queries come from elsewhere (a decoder, a
  question, learned vectors).

## Rows and columns

The literature writes the same thing in two ways. In this package a position is a **row**: Q is (queries × d), K is
(keys × d), V is (keys × d_v), and each row of the weights sums to 1:

    softmax(Q Kᵀ / √d) V                (queries × d_v), softmax along each row

Others write a position as a **column**: Q is (d × queries), K is (d × keys), V is (d_v × keys), and each column of the
weights sums to 1:

    V softmax(Kᵀ Q / √d)                (d_v × queries), softmax down each column

They are the same numbers, transposed. A weight matrix is read as "query by key" in the first and as "key by query" in
the second; applying one from the wrong side mixes values with weights that do not sum to 1.
""",
    """## “类别”一栏的用词

- **软性**：上下文是注意力分布下的期望，处处可导。\
**硬性**：只取一个位置（分数最大者，或按分布采样），靠 REINFORCE 或直通梯度学习。
- **全局**：所有位置都可以读取。**局部**：只看某个（给定的或预测的）位置附近的窗口。
- **自注意力**：查询与键来自同一序列。**交叉**：查询来自别处（解码器、问题或可学习的向量）。

## 行与列的约定

同一件事，文献里有两种写法。本库中一个位置是一**行**：\
Q 为（查询数 × d），K 为（键数 × d），V 为（键数 × d_v），权重的每一行之和为 1：

    softmax(Q Kᵀ / √d) V                （查询数 × d_v），沿每一行做 softmax

另一种写法里一个位置是一**列**：Q 为（d × 查询数），K 为（d × 键数），V 为（d_v × 键数），权重的每一列之和为 1：

    V softmax(Kᵀ Q / √d)                （d_v × 查询数），沿每一列做 softmax

两者是同一组数，互为转置。\
前者的权重矩阵读作“查询 × 键”，后者读作“键 × 查询”；若从错误的一侧相乘，混合各个值的权重之和就不再是 1。
""",
)


def markdown(language: Language = "en") -> str:
    """The page: the table, the words of its taxonomy, and both conventions of the literature."""
    rows = [" | ".join(_say(column, language) for column in COLUMNS), " | ".join("---" for _ in COLUMNS)]
    rows += [" | ".join(_cells(system, language)) for system in family()]
    table = "\n".join(f"| {row} |" for row in rows)
    papers = dict.fromkeys(system.paper for system in family())
    sources = "\n".join(f"- {paper}" for paper in papers)
    heading = "## 文献" if language == "zh" else "## Papers"
    return "\n".join((_say(HEAD, language), table, "", _say(TAIL, language), heading, "", sources, ""))


def _cells(system: System, language: Language) -> list[str]:
    choices = (system.score, system.mask, system.normalizer, system.refocus, system.read)
    kinds = ("、" if language == "zh" else ", ").join(_say(KINDS[kind], language) for kind in system.kinds)
    title = f"{_say(system.title, language)}, {system.year}"
    whole = [f"`{system.model}`"] if system.model else []
    if system.later.en:
        whole.append(_say(Text("not yet: ", "尚无："), language) + _say(system.later, language))
    return [title, kinds, *(_say(choice, language) for choice in choices), f"`{system.here}`", "; ".join(whole)]


def _say(text: Text, language: Language) -> str:
    return text.zh if language == "zh" else text.en


if __name__ == "__main__":
    import sys
    from pathlib import Path

    from regard.files import write_atomically

    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs")
    print(write_atomically(folder / "family.md", markdown("en")))
    print(write_atomically(folder / "family.zh.md", markdown("zh")))
