"""Objects from a sheet of emoji: their images, and their names in Unicode's CLDR."""

import difflib
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

from regard.data.chance import Chance
from regard.data.images.caption_text import Phrase
from regard.data.images.cutout import Cutout, cut_out, is_blank
from regard.data.images.image_file import open_image
from regard.data.images.json_file import entries, read_json
from regard.data.images.scenes import Object
from regard.data.images.settings import EmojiScenes
from regard.errors import ConfigError, DataError

_VARIANT = 0xFE0F  # asks for the coloured form; CLDR's keys are without it
_LEFT_OUT = ("Flags", "Component")  # flags differ in little, and skin tones are no objects


class Emoji(NamedTuple):
    """An emoji: its short name, its name in the captions' language, and its image."""

    short_name: str
    name: str
    drawing: Image.Image


class EmojiObjects:
    """Follows `scenes.Cast`: pairs are of two emoji.

    Scenes name them from left to right. In an order of the emoji themselves all names would follow from which emoji a
    image has, wherever they stand, and a model need not attend to each.

    Args:
        settings: the files, and which emoji.

    Raises:
        ConfigError: an unknown emoji, or nearly all pairs are to be held out.
        DataError: a file that cannot be read or says something else than expected.
    """

    from_left = True

    def __init__(self, settings: EmojiScenes) -> None:
        self.emoji = read_emoji(settings)
        pairs = list(combinations(range(len(self.emoji)), 2))
        if settings.held_out > len(pairs) // 2:
            raise ConfigError(
                f"held_out={settings.held_out} of the {len(pairs)} pairs of {len(self.emoji)} emoji; at most half of "
                "them can be held out of training"
            )
        self.held_out = Chance("emoji", "held out").shuffled(pairs)[: settings.held_out]
        self._apart = frozenset(self.held_out)
        self._cutouts: dict[tuple[int, int], Cutout] = {}

    def choose(self, count: int, chance: Chance, *, unseen: bool) -> list[Object]:
        """Different emoji in the order of the metadata, with a pair held out of training or without any."""
        while True:
            chosen = set(chance.choose(self.held_out)) if unseen else set()
            while len(chosen) < count:
                chosen.add(chance.below(len(self.emoji)))
            order = sorted(chosen)
            if unseen or self._apart.isdisjoint(combinations(order, 2)):
                return [Object(Phrase("", self.emoji[one].name), partial(self._cutout, one)) for one in order]

    def _cutout(self, number: int, side: int) -> Cutout:
        key = number, side
        if key not in self._cutouts:
            self._cutouts[key] = cut_out(self.emoji[number].drawing, side)
        return self._cutouts[key]


def read_emoji(settings: EmojiScenes) -> list[Emoji]:
    """The chosen emoji in the order of the metadata.

    Raises:
        ConfigError: a name that no emoji and no subcategory has.
        DataError: files that do not fit, an emoji without a name or an image, two of one name.
    """
    sheet = _opened(settings.sheet)
    names = _names(settings)
    found: dict[str, Emoji] = {}
    for entry in _chosen(settings):
        short_name = entry["short_name"]
        name = names.get(_characters(entry, settings.metadata))
        if name is None:
            raise DataError(f"{settings.names}: it has no name for the emoji {short_name!r}; leave it out of `emoji`")
        if name in found:
            raise DataError(
                f"{settings.names}: the emoji {found[name].short_name!r} and {short_name!r} are both named {name!r}, "
                "so a caption could not distinguish them; leave one out of `emoji`"
            )
        found[name] = Emoji(short_name, name, _cell(sheet, entry, settings))
    return list(found.values())


def _chosen(settings: EmojiScenes) -> list[dict[str, Any]]:
    listed = entries(read_json(settings.metadata), "emoji", settings.metadata)
    for number, entry in enumerate(listed):
        if not all(isinstance(entry.get(field), str) for field in ("short_name", "unified", "subcategory")) or not all(
            isinstance(entry.get(field), int) for field in ("sheet_x", "sheet_y", "sort_order")
        ):
            raise DataError(
                f"{settings.metadata}, entry {number + 1}: expected short_name, unified, subcategory, sheet_x, sheet_y "
                "and sort_order, as the emoji.json of an emoji-datasource package has them"
            )
    objects = [entry for entry in listed if entry.get("category") not in _LEFT_OUT]
    known = {entry[field] for entry in objects for field in ("short_name", "subcategory")}
    for asked in settings.emoji:
        if asked not in known:
            near = ", ".join(difflib.get_close_matches(asked, known, cutoff=0.4)) or "nothing alike"
            raise ConfigError(f"{settings.metadata} has no emoji or subcategory {asked!r}; it has {near}")
    asked_for = set(settings.emoji)
    chosen = [entry for entry in objects if {entry["short_name"], entry["subcategory"]} & asked_for]
    if len(chosen) < 4:
        raise ConfigError(f"`emoji` names {len(chosen)} emoji of {settings.metadata}; scenes need 4 or more")
    return sorted(chosen, key=lambda entry: entry["sort_order"])


def _names(settings: EmojiScenes) -> dict[str, str]:
    """CLDR's short name (tts) of each emoji."""
    content = read_json(settings.names)
    try:
        found = content["annotations"]["identity"]["language"]
        listed = content["annotations"]["annotations"].items()
        names = {characters: entry["tts"][0] for characters, entry in listed if entry.get("tts")}
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise DataError(f"{settings.names}: this is no annotations.json of CLDR: {error!r} is missing in it") from error
    if found != settings.language:
        raise DataError(
            f"{settings.names}: its names are in {found!r}, but captions were asked for in {settings.language!r}; "
            f"set language={found} or name another file"
        )
    return names


def _characters(entry: dict[str, Any], path: Path) -> str:
    try:
        codes = [int(code, 16) for code in entry["unified"].split("-")]
        return "".join(chr(code) for code in codes if code != _VARIANT)
    except (ValueError, OverflowError) as error:
        raise DataError(f"{path}: emoji {entry['short_name']!r} has the code points {entry['unified']!r}") from error


def _opened(path: Path) -> Image.Image:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: this sheet cannot be opened: {error.strerror or error}") from error
    return open_image(content, str(path))


def _cell(sheet: Image.Image, entry: dict[str, Any], settings: EmojiScenes) -> Image.Image:
    pitch = settings.cell + 2 * settings.border
    left, top = (entry[field] * pitch + settings.border for field in ("sheet_x", "sheet_y"))
    name = f"emoji {entry['short_name']!r} (cell {entry['sheet_x']}, {entry['sheet_y']})"
    if min(left, top) < 0 or left + settings.cell > sheet.width or top + settings.cell > sheet.height:
        raise DataError(
            f"{settings.sheet}: {name} lies outside of its {sheet.width} × {sheet.height} pixels; are `cell` "
            f"({settings.cell}) and `border` ({settings.border}) those of this sheet?"
        )
    drawing = sheet.crop((left, top, left + settings.cell, top + settings.cell)).convert("RGBA")
    if is_blank(drawing):
        raise DataError(f"{settings.sheet}: the cell of {name} is empty; leave it out of `emoji`")
    return drawing
