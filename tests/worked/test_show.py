"""What is printed: every step in both languages, the literature beside it, and lists without torch."""

import functools
import subprocess
import sys

import pytest

from regard.worked import catalogue, run, run_all, work
from regard.worked.example import Claim, Printed, Step, Text, Work
from regard.worked.show import digits, show
from regard.worked.table import WORKED


@functools.cache
def chinese(name: str) -> str:
    return run(name, {}, "zh")


def test_w2_in_english():
    text = run("W2")
    assert text.startswith("W2  what")
    assert '--scores "0.3, 2.8, 0.2, 0.1, 0.1, 0.0, 0.6"' in text
    assert "0.0561  0.6838  0.0508  0.0460  0.0460  0.0416  0.0758" in text
    assert "literature: 0.0561, 0.6838, 0.0508, 0.0460, 0.0460, 0.0416, 0.0758 — agrees" in text
    assert "Compared with the literature: 3 of 3 agree." in text


def test_columns_stand_under_their_names():
    text = run("W2").splitlines()
    at = next(line for line, words in enumerate(text) if words.startswith(" 3. weights"))
    names, numbers = text[at + 1], text[at + 2]
    assert names.split() == ["那只", "猫", "没", "过", "马路", "，", "因为"]
    from rich.cells import cell_len

    # Right-aligned: where the second name ends, the second number ends, Chinese counting double.
    assert cell_len(names[: names.index("猫") + 1]) == numbers.index("0.6838") + len("0.6838")


@pytest.mark.parametrize("name", list(WORKED))
def test_every_step_is_named_in_chinese(name):
    text = chinese(name)
    assert "出处：" in text and "文献：" in text and "与文献核对：" in text and "一致" in text
    assert "不一致" not in text
    for english in ("source:", "given:", "literature:", "agree"):
        assert english not in text
    assert WORKED[name].title.zh in text
    for step in work(name, {"samples": "100"} if name == "W5" else {}).steps:
        assert step.label.zh in text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("W1", ["打分", "权重", "上下文向量", "第二个头", "输出投影"]),
        ("W3", ["不缩放", "梯度", "softmax 饱和"]),
        ("W4", ["掩码", "填充", "对齐矩阵不是对角的", "恰好为 0"]),
        ("W5", ["方差", "标准误差", "随机种子"]),
        ("W7", ["指针网络", "从大到小"]),
        ("W13", ["双线性打分", "点积", "不对称"]),
        ("W14", ["键值对注意力"]),
        ("W17", ["局部注意力", "窗口", "高斯", "不再归一化"]),
        ("W19", ["柔性查字典", "温度"]),
        ("W20", ["旋转位置编码", "正弦位置编码"]),
        ("W21", ["神经图灵机", "插值", "移位", "锐化", "擦除", "写入", "存储器"]),
    ],
)
def test_the_fields_own_words_in_chinese(name, words):
    text = chinese(name)
    assert [word for word in words if word not in text] == []


def test_own_numbers_are_marked():
    text = run("W6", {"query": "1, 1, 1"})
    assert '--query "1, 1, 1"  the query  (yours)' in text
    assert "These are your own numbers" in text and "literature:" not in text
    assert "（" not in text
    text = run("W6", {"query": "1, 1, 1"}, "zh")
    assert "（你给的）" in text and "这里用的是你自己的数" in text


def test_disagreement_is_shown():
    wrong = [
        Step(Text("a", "甲"), "", 0.5, Printed(0.6, places=1)),
        Step(Text("b", "乙"), "", [1.0, 2.0], Printed([1.0], places=1)),
        Step(Text("c", "丙"), "", 1, Claim(Text("two", "二"), False)),
        Step(Text("d", "丁"), "", 0.25004, Printed(0.25)),
    ]
    text = show(Work(WORKED["W6"], {"query": "", "key": ""}, frozenset(), wrong))
    assert text.count("DISAGREES") == 3 and "1 of 4 agree" in text
    assert "共 4 项，1 项一致" in show(Work(WORKED["W6"], {"query": "", "key": ""}, frozenset(), wrong), "zh")


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.0, "0"), (1e-20, "1.0e-20"), (0.12345, "0.1235"), (-2.0, "-2"), (1e12, "1.0000e+12"), (float("inf"), "inf")],
)
def test_digits(number, text):
    assert digits(number, 4) == text


def test_all_of_them():
    text = run_all()
    for name, title in catalogue():
        assert f"{name}  {title}" in text
    assert "DISAGREES" not in text
    assert not any(line != line.rstrip() for line in text.splitlines())


def test_catalogue_in_both_languages():
    assert catalogue()[1][0] == "W2" and catalogue("zh")[1][1].startswith("“它”")
    assert len(catalogue()) == 20


def test_listing_needs_no_torch():
    code = "import sys; from regard.worked import catalogue; catalogue(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
