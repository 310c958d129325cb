"""The one way in which an image is read, for training and for use: any file becomes a square of red, green and blue.

An image keeps its proportions: it is scaled until its longer side fits, and stands in the middle of a white square.
What is transparent is white, what has one channel gets three, and the camera's EXIF orientation is applied.
"""

import io
import os
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from regard.data.images.captioned import Box
from regard.errors import DataError

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
"""Read from the file's content, whatever its name. Formats that are programs, such as EPS, are left out."""

ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm")
"""By which the images of a folder are known."""

MOST_PIXELS = 89_478_485
"""A larger one is taken for a bomb: a small file that fills the memory."""

_WHITE = (255, 255, 255)


class PaddedImage(NamedTuple):
    """An image in its square.

    Attributes:
        pixels: `(size, size, 3)`, uint8.
        box: where the image itself stands in it; all else is white.
    """

    pixels: np.ndarray
    box: Box


def load_image(path: str | os.PathLike[str], size: int) -> PaddedImage:
    """Read an image's file: PNG, JPEG, WebP, GIF (its first frame), BMP, TIFF or PPM, of any size and colours.

    Args:
        path: of the file.
        size: pixels of the square's side.

    Raises:
        DataError: no such file, no image, a damaged or cut one, or one of too many pixels; the message names it.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"{os.fspath(path)}: this image cannot be opened: {error.strerror or error}") from error
    return decode_image(content, size, os.fspath(path))


def decode_image(content: bytes, size: int, origin: str) -> PaddedImage:
    """The image that a file's bytes hold, as `load_image`; `origin` is what errors call it."""
    image = _in_colors(open_image(content, origin), origin)
    scale = size / max(image.size)
    width, height = (max(1, min(size, round(side * scale))) for side in image.size)
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BICUBIC, reducing_gap=3.0)
    left, top = (size - width) // 2, (size - height) // 2
    square = Image.new("RGB", (size, size), _WHITE)
    square.paste(image, (left, top))
    return PaddedImage(np.array(square), (float(left), float(top), float(left + width), float(top + height)))


def open_image(content: bytes, origin: str) -> Image.Image:
    """An image as it was saved, the right way up: its first frame, in whatever mode it has.

    Raises:
        DataError: as `load_image`.
    """
    if not content:
        raise DataError(f"{origin}: this file is empty; an image is expected")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd metadata; a decompression bomb is recognized by its size below
            with Image.open(io.BytesIO(content), formats=FORMATS) as image:
                _refuse_bomb(image, origin)
                image.seek(0)
                return ImageOps.exif_transpose(image)
    except DataError:
        raise
    except UnidentifiedImageError as error:
        raise DataError(f"{origin}: this is no image; {', '.join(FORMATS)} are read") from error
    except Image.DecompressionBombError as error:
        raise DataError(f"{origin}: {_too_large}") from error
    except Exception as error:  # decoders raise nearly anything when a file is cut or damaged
        raise DataError(f"{origin}: this image is damaged or cut short ({error}); make or fetch it again") from error


_too_large = f"this image has more than {MOST_PIXELS:,} pixels; scale it down first"


def _refuse_bomb(image: Image.Image, origin: str) -> None:
    if image.width * image.height > MOST_PIXELS:
        raise DataError(f"{origin}: {_too_large}")


def _in_colors(image: Image.Image, origin: str) -> Image.Image:
    """Three channels of 8 bits, on white."""
    if image.mode.startswith("I"):  # grey of 16 bits, or of 32 that hold 16
        grey = np.asarray(image).astype(np.int64)
        if grey.min() < 0 or grey.max() > 0xFFFF:
            raise DataError(f"{origin}: its pixels have more than 16 bits; save it with 8 or 16")
        return Image.fromarray((grey // 257).astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        raise DataError(f"{origin}: its pixels are floating-point numbers; save it with 8 or 16 bits")
    if image.has_transparency_data:
        ground = Image.new("RGBA", image.size, (*_WHITE, 255))
        return Image.alpha_composite(ground, image.convert("RGBA")).convert("RGB")
    return image.convert("RGB")
