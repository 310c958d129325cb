"""Glyphs for a page: the few characters that a reader's machine may lack travel inside the file.

Only characters beyond the scripts and symbols that every system draws are embedded, from the fonts that come with the
installation (their licences allow it), reduced to what the page shows. A page in Latin script embeds nothing.
"""

import base64
import io

from regard.views.labels import is_ignorable

FAMILY = "regard"
_COLOURED = ("Apple Color Emoji", "Segoe UI Emoji", "Noto Color Emoji")  # nicer than ours, where a reader has them


def embedded(text: str) -> str:
    """CSS `@font-face` rules, named "regard", with the rarer characters of a text; empty if it has none."""
    rare = sorted(character for character in set(text) if _is_rare(character))
    if not any(not is_ignorable(character) for character in rare):
        return ""
    from regard.views.fonts import shipped  # matplotlib and fontTools are slow to import and most pages need neither

    steering = [character for character in rare if is_ignorable(character)]
    by_file: dict[str, list[str]] = {}
    for character in rare:
        file = None if is_ignorable(character) else shipped(character)
        if file is not None:
            by_file.setdefault(file, []).append(character)
    return "".join(_rule(file, characters + steering) for file, characters in by_file.items())


def _is_rare(character: str) -> bool:
    code = ord(character)
    return 0x0590 <= code < 0x2000 or code >= 0x2460 or is_ignorable(character)


def _rule(file: str, characters: list[str]) -> str:
    from fontTools import subset
    from fontTools.ttLib import TTFont

    options = subset.Options(flavor="woff", layout_features=["*"], notdef_outline=True, hinting=False, name_IDs=[])
    codes = [ord(character) for character in characters]
    content = io.BytesIO()
    with TTFont(file, lazy=True) as font:
        reducer = subset.Subsetter(options)
        reducer.populate(unicodes=codes)
        reducer.subset(font)
        font.flavor = "woff"
        font.save(content)
    source = base64.b64encode(content.getvalue()).decode("ascii")
    reach = ",".join(f"U+{code:X}" for code in sorted(codes))
    local = "".join(f'local("{name}"),' for name in _COLOURED) if "Emoji" in file else ""
    return (
        f'@font-face{{font-family:"{FAMILY}";src:{local}url(data:font/woff;base64,{source});unicode-range:{reach}}}\n'
    )
