"""A folder of images with a file of captions, in the layout of the public COCO and Flickr splits (dataset.json)."""

from pathlib import Path
from typing import Any, NamedTuple

from regard.data.images.captioned import CaptionedImage, Part
from regard.data.images.image_file import load_image
from regard.data.images.json_file import entries, read_json
from regard.data.images.settings import CaptionedFolder
from regard.errors import ConfigError, DataError, cut, nearest, quoted

SPLITS: dict[str, Part] = {"train": "training", "restval": "training", "val": "validation", "test": "test"}
"""What the file's splits are here; "restval" is what a public split of COCO adds to its training."""


class _Entry(NamedTuple):
    file: Path
    captions: tuple[str, ...]


class ImageFolder:
    """Follows `captioned.ImageSource`: images are read when they are asked for, in the order of the file.

    Args:
        settings: folder and captions.
        part: which splits.

    Raises:
        ConfigError: unseen pairs are asked for, which only synthetic scenes have.
        DataError: a file that is missing or says something else than expected; the message names file and entry.
    """

    def __init__(self, settings: CaptionedFolder, part: Part) -> None:
        if part == "unseen":
            raise ConfigError("a folder has training, validation and test; only synthetic scenes have unseen pairs")
        self.settings = settings
        path = settings.captions
        listed = entries(read_json(path), "images", path)
        read = [_entry(entry, settings.folder, f"{path}, image {number + 1}") for number, entry in enumerate(listed)]
        self._entries = [one for one_part, one in read if one_part == part]
        if not self._entries:
            splits = ", ".join(split for split, of in SPLITS.items() if of == part)
            raise DataError(f"{path}: none of its {len(listed)} images has the split {splits}, so there is no {part}")
        for one in self._entries:
            if not one.file.is_file():
                raise DataError(f"{one.file}: this image is not there, but {path} names it")

    def __len__(self) -> int:
        return len(self._entries)

    def captions(self, number: int) -> tuple[str, ...]:
        """Of an image that need not be read for it."""
        return self._entries[number].captions

    def __getitem__(self, number: int) -> CaptionedImage:
        """The image of that number, read from its file.

        Raises:
            IndexError: there are not as many.
            DataError: the file is damaged.
        """
        if not 0 <= number < len(self._entries):
            raise IndexError(f"image {number} of {len(self._entries)}")
        file, captions = self._entries[number]
        return CaptionedImage(load_image(file, self.settings.size).pixels, captions, (), str(file))


def _entry(entry: dict[str, Any], folder: Path, place: str) -> tuple[Part, _Entry]:
    name, split = _text(entry, "filename", place), _text(entry, "split", place)
    named = f"{place} ({cut(name, 60)})"
    if split not in SPLITS:
        raise DataError(f"{named}: no split is named {quoted(split)}.{nearest(split, SPLITS)}")
    below = _text(entry, "filepath", place) if entry.get("filepath") is not None else ""
    sentences = entry.get("sentences")
    if not isinstance(sentences, list) or not sentences:
        raise DataError(f'{named}: expected "sentences", a list of one or more')
    captions = tuple(_sentence(one, f"{named}, sentence {at + 1}") for at, one in enumerate(sentences))
    inside = Path(below, name)
    if inside.anchor or ".." in inside.parts:
        raise DataError(f"{place}: {quoted(str(inside))} leads out of the folder of the images; name files within it")
    return SPLITS[split], _Entry(folder / inside, captions)


def _text(entry: dict[str, Any], field: str, place: str) -> str:
    value = entry.get(field)
    if not isinstance(value, str) or not value:
        raise DataError(f'{place}: expected "{field}", a text, but {quoted(value)} was given')
    return value


def _sentence(sentence: Any, place: str) -> str:
    """A caption as it was written, or else its words."""
    given = sentence if isinstance(sentence, dict) else {}
    raw, tokens = given.get("raw"), given.get("tokens")
    if raw is None and isinstance(tokens, list) and all(isinstance(token, str) for token in tokens):
        raw = " ".join(tokens)
    if not isinstance(raw, str) or not raw.strip():
        raise DataError(f'{place}: expected {{"raw": text}} or {{"tokens": [word, …]}} that is not empty')
    return " ".join(raw.split())
