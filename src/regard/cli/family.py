"""`regard family`: every system as one row of choices."""

from typing import Annotated, Literal

import typer

from regard.cli.app import app
from regard.cli.command import command
from regard.cli.console import out, say, table
from regard.errors import ConfigError, nearest

Name = Annotated[str | None, typer.Argument(help="Show this system alone, with its paper.", show_default=False)]
Language = Annotated[Literal["en", "zh"], typer.Option("--lang", help="Language of the text.")]
Write = Annotated[
    str | None,
    typer.Option("--write", help="Write the whole page as Markdown to this file, or to -.", show_default=False),
]


@command(
    app,
    "family",
    examples="regard family\nregard family bahdanau\nregard family --lang zh --write family.zh.md",
)
def family(name: Name = None, lang: Language = "en", write: Write = None) -> None:
    """Print every system as one row of choices.

    For each its score, mask, normalizer, refocus and read.
    """
    if name is not None:
        _print_system(name, lang)
    elif write is None:
        _print_table(lang)
    else:
        from regard.attention.family.page import markdown
        from regard.files import write_atomically

        page = markdown(lang).rstrip("\n")
        if write == "-":
            out(page)
        else:
            write_atomically(write, page + "\n")
            say(f"Written to {write}.")


def _print_table(lang: str) -> None:
    from regard.attention.family.family import family as systems

    heads = {"en": "name system score mask normalize refocus read", "zh": "名称 系统 打分 掩码 归一化 再聚焦 读取"}[
        lang
    ].split()
    rows = []
    for system in systems():
        choices = (system.title, system.score, system.mask, system.normalizer, system.refocus, system.read)
        rows.append([system.name, *(getattr(choice, lang) for choice in choices)])
    out(table(heads, rows))
    say("All about one of them: regard family NAME. The page with both conventions: --write FILE.")


def _print_system(name: str, lang: str) -> None:
    from regard.attention.family.family import family as systems

    known = {system.name: system for system in systems()}
    if name not in known:
        raise ConfigError(f"no system is named {name!r}.{nearest(name, known)}")
    system = known[name]
    out(f"{getattr(system.title, lang)} ({system.year})")
    out(system.paper)
    heads = {"en": "score mask normalize refocus read", "zh": "打分 掩码 归一化 再聚焦 读取"}[lang].split()
    choices = (system.score, system.mask, system.normalizer, system.refocus, system.read)
    lines = [(head, getattr(choice, lang)) for head, choice in zip(heads, choices, strict=True)]
    later = getattr(system.later, lang)
    lines += [({"en": "here", "zh": "写法"}[lang], system.here), ({"en": "system", "zh": "系统"}[lang], system.model)]
    lines += [({"en": "later", "zh": "尚无"}[lang], later)]
    for head, text in lines:
        if text:
            out(f"  {head}: {text}")
