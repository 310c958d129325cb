"""The page of worked numbers in the documentation, written from the table.

`python -m regard.worked.page docs` writes both languages anew.
"""

import sys
from pathlib import Path

from regard.files import write_atomically
from regard.worked.example import Language, Text, Worked
from regard.worked.table import WORKED

FILES: dict[Language, str] = {"en": "worked.md", "zh": "worked.zh.md"}

_HEAD = Text(
    """# Numbers worked by hand

These examples can be worked on paper, and the literature does so. `regard worked` computes each one by the library in
float64, step by step, with the literature's number beside it. The tests check each answer to the printed digits, and
against sums written out in plain Python.

```
regard worked                      # the list
regard worked W2                   # one, step by step
regard worked W2 --lang zh         # in Chinese
regard worked W6 --query "1, 2" --key "3, 4"   # your own numbers
regard worked W4 --run RUN         # W4 by a translator that you trained (regard reproduce textbook-en-fr)
```

Numbers are separated by commas or spaces, rows by semicolons. With your own numbers, only what must hold for any
numbers is compared.
""",
    """# 手算的数

文献里有一些在纸上就能算完的例子。`regard worked` 用本库以 float64 逐步算一遍，并把文献中的数列在旁边。
测试会核对每个答案：既核对文献印出的位数，也与纯 Python 写出的求和对照。

```
regard worked --lang zh            # 列出全部
regard worked W2 --lang zh         # 逐步计算其中一个
regard worked W6 --query "1, 2" --key "3, 4" --lang zh   # 换成你自己的数
regard worked W4 --run RUN --lang zh   # 由训练好的翻译器来做 W4（regard reproduce textbook-en-fr）
```

数与数之间用逗号或空格隔开，行与行之间用分号隔开。换成自己的数时，只核对对任何数都应成立的结论。
""",
)
_SOURCE, _ANSWER = Text("Source: ", "出处："), Text("Answer: ", "答案：")
_INPUT = Text("- `--{name}`: {meaning}; default `{default}`", "- `--{name}`：{meaning}；默认 `{default}`")


def page(language: Language) -> str:
    """The whole page as Markdown."""
    return "\n".join([_HEAD.to(language), *(_section(row, language) for row in WORKED.values())])


def _section(row: Worked, language: Language) -> str:
    flag = " --lang zh" if language == "zh" else ""
    inputs = [
        _INPUT.to(language).format(name=each.name, meaning=each.meaning.to(language), default=each.default)
        for each in row.inputs
    ]
    return "\n".join(
        [
            f"## {row.id} · {row.title.to(language)}",
            "",
            f"{_SOURCE.to(language)}{row.source.to(language)}  ",
            f"{_ANSWER.to(language)}{row.answer.to(language)}",
            "",
            f"    regard worked {row.id}{flag}",
            "",
            *inputs,
            "",
        ]
    )


def write(folder: str | Path) -> list[Path]:
    """Write the page in both languages into a folder."""
    return [write_atomically(Path(folder) / name, page(language)) for language, name in FILES.items()]


if __name__ == "__main__":
    for path in write(sys.argv[1]):
        print(path)
