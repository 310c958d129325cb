"""Pictures of a model that captions: its attention over the image at each word."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.data.images.captioned import Box
from regard.tasks.captioning.predictor import END_WORD, CaptionedFile
from regard.views.view import Matrix, Overlay, View

_END = {"en": "end", "zh": "结束"}
_TITLE = {"en": "{count} captions", "zh": "{count} 条描述"}


def captions_view(
    seen: Sequence[CaptionedFile],
    language: str = "en",
    boxes: Sequence[Box] = (),
    notes: Sequence[str] = (),
) -> View:
    """The attention of each word of each caption, laid over its image; over features there is nothing to lay it on.

    Args:
        seen: each image and its caption; those that could not be read are left out.
        language: "en" or "zh", of the words around.
        boxes: where known objects are, for a single image.
        notes: what a reader should know.
    """
    matrices: list[Matrix] = []
    captioned = [(_name(one.path), one.image, one.caption) for one in seen if one.image is not None and one.caption]
    for name, image, caption in captioned:
        before = f"{name}: " if len(captioned) > 1 else ""
        for word, weights in zip(caption.words, caption.weights, strict=True):
            title = before + (_END.get(language, _END["en"]) if word == END_WORD else word)
            if image.dtype == np.uint8:
                matrices.append(Overlay.on(image, weights, title, boxes))
            else:
                rows, columns = ([str(number + 1) for number in range(count)] for count in weights.shape)
                matrices.append(Matrix(weights, rows, columns, title))
    title = (
        captioned[0][2].text if len(captioned) == 1 else _TITLE.get(language, _TITLE["en"]).format(count=len(captioned))
    )
    return View("looking", title, matrices, notes, language)


def _name(path: Path) -> str:
    """A file's name as text that can be written: bytes that are not UTF-8 are escapes."""
    return path.name.encode("utf-8", "backslashreplace").decode("utf-8")
