"""The glossary is one in both languages, names what the code has, and Chinese pages use its terms and no others."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ENGLISH, CHINESE = (ROOT / "docs" / f"glossary{language}.md" for language in ("", ".zh"))

# What a Chinese page must not say, and the term of the glossary that it says instead.
FORBIDDEN = {
    r"您": "你",
    r"得分": "打分（动词）、分数（数）",
    r"重新聚焦|重聚焦": "再聚焦",
    r"归一(?!化)|规范化|标准化": "归一化",
    r"通用打分|一般打分|通用（Luong": "双线性打分",
    r"词片|标记化": "词元",
    r"纳特|\bnats?\b(?!\|)": "奈特",
    r"未知词|生词|集外词": "未登录词",
    r"集束": "束搜索",
    r"评测": "评估",
    r"硬注意力|软注意力|柔性注意力": "硬性注意力、软性注意力",
    r"池化": "汇聚",
    r"隐藏状态|隐含状态": "隐状态",
    r"固定上下文": "定长上下文",
    r"屏蔽|遮罩|遮蔽": "掩码（名词）、遮住（动词）",
    r"图像(?!文件)": "图片",
    r"(?<!磁)(?<!\w)[读写]头|写头放": "读磁头、写磁头",
    r"epoch": "轮",
    r"局部性注意力|本地注意力": "局部注意力",
    r"交叉性|互注意力": "交叉注意力",
    r"注意力头": "头",
}
CODE = [path for path in (ROOT / "src" / "regard").rglob("*.py") if path.parts[-2] != "synthetic"]
PAGES = [*sorted((ROOT / "docs").glob("*.zh.md")), ROOT / "README.zh.md", ROOT / "docs" / "coverage.md"]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def terms(page: Path) -> list[list[str]]:
    """The cells of each row of all tables."""
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))] for line in lines]
    return [row for row in rows if row[0] not in ("term", "术语")]


def test_both_pages_have_the_same_terms_in_one_order():
    english = [(row[0].removesuffix(" *"), row[1]) for row in terms(ENGLISH)]
    chinese = [(row[1], re.sub(r" ?\*$", "", row[0])) for row in terms(CHINESE)]
    assert english == chinese
    assert len(english) > 100
    assert [row[4] for row in terms(ENGLISH)] == [row[4] for row in terms(CHINESE)], "the code names differ"


@pytest.mark.parametrize("page", [ENGLISH, CHINESE], ids=name)
def test_every_row_is_whole(page):
    rows = terms(page)
    for row in rows:
        assert len(row) == 6 and all(row), f"{name(page)}: {row[0]} lacks a cell, or has a | too many"
        # That these are there, tests/test_docs.py sees to on every page.
        assert re.fullmatch(r"`regard[\w.]*`(, `regard[\w.]*`)*", row[4]), f"{name(page)}: {row[0]} names no code"
    assert len({row[0] for row in rows}) == len(rows), "a term stands there twice"


def forbidden(text: str) -> list[str]:
    """What a text says otherwise than the glossary."""
    found = []
    for pattern, term in FORBIDDEN.items():
        found += [f"{match[0]!r}: say {term}" for match in re.finditer(pattern, text)]
    return found


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_chinese_page_uses_the_terms_of_the_glossary(page):
    text = re.sub(r"^```.*?^```$|`[^`\n]*`|\]\([^)]*\)", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    chinese = "\n".join(line for line in text.splitlines() if re.search(r"[一-鿿]", line))
    if page.name == "coverage.md":
        chinese = "\n".join(line.split("|")[2] if line.startswith("|") else line for line in chinese.splitlines())
    if page == CHINESE:
        chinese = "\n".join("".join(row[0] + row[3]) for row in terms(page))
    assert not forbidden(chinese), f"{name(page)}: " + "; ".join(forbidden(chinese))


def test_chinese_within_the_code_uses_them_too():
    wrong = []
    for path in CODE:
        text = path.read_text(encoding="utf-8")
        chinese = re.findall(r'"[^"\n]*[一-鿿][^"\n]*"', text)
        wrong += [f"{name(path)}: {one}" for one in forbidden("\n".join(chinese))]
    assert not wrong, "\n".join(wrong)


def test_a_forbidden_word_would_be_seen():
    assert forbidden("用您的话说，重新聚焦之后再归一。") == [
        "'您': say 你",
        "'重新聚焦': say 再聚焦",
        "'归一': say 归一化",
    ]
    assert not forbidden("再聚焦之后归一化，写磁头与读磁头各有分数；读写磁头")
