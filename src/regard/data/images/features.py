"""Features that were made of images before, by whatever network: one file per image, named as the image is."""

import os
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from regard.data.images.captioned import CaptionedImage, ImageSource
from regard.errors import DataError

ENDINGS = (".npy", ".safetensors")


def load_features(path: str | os.PathLike[str], width: int) -> np.ndarray:
    """A grid `(rows, columns, width)` of float32 from a .npy file, or from the one tensor of a .safetensors file.

    Raises:
        DataError: no such file, a damaged one, or numbers of another shape; the message names it. Nothing in it is run.
    """
    path = Path(path)
    try:
        tensors = path.suffix.lower() == ".safetensors"
        held = list(load_file(path).values()) if tensors else [np.load(path, allow_pickle=False)]
    except OSError as error:
        raise DataError(f"{path}: these features cannot be opened: {error.strerror or error}") from error
    except (SafetensorError, ValueError, EOFError) as error:
        raise DataError(f"{path}: these are no features of an image: {error}") from error
    if len(held) != 1:
        raise DataError(f"{path} holds {len(held)} tensors; one is expected, (rows, columns, {width})")
    grid = held[0]
    numbers = isinstance(grid, np.ndarray) and np.issubdtype(grid.dtype, np.floating)
    if not numbers or grid.ndim != 3 or grid.shape[2] != width or not grid.size:
        raise DataError(
            f"{path} holds {getattr(grid, 'dtype', 'no')} numbers of shape {getattr(grid, 'shape', ())}; expected "
            f"(rows, columns, {width}), floating point"
        )
    if not np.isfinite(grid).all():
        raise DataError(f"{path} holds numbers that are not finite")
    return grid.astype(np.float32)


class ImageFeatures:
    """Follows `captioned.ImageSource`: features stand in the place of each image's pixels.

    Args:
        images: with captions; the stem of each one's `place` names its features.
        folder: of the features.
        width: of them.
    """

    def __init__(self, images: ImageSource, folder: Path, width: int) -> None:
        self.images, self.folder, self.width = images, folder, width
        self._named: dict[str, str] = {}  # by stem, the image that took its features

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, number: int) -> CaptionedImage:
        """The image of that number with its features in place of pixels.

        Raises:
            DataError: it has no features, they are damaged, or two images would share them.
        """
        image = self.images[number]
        stem = Path(image.place).stem
        other = self._named.setdefault(stem, image.place)
        if other != image.place:
            raise DataError(f"{image.place} and {other} would share the features named {stem}; rename one of them")
        found = [self.folder / f"{stem}{ending}" for ending in ENDINGS]
        path = next((one for one in found if one.is_file()), None)
        if path is None:
            raise DataError(f"{image.place} has no features: {' or '.join(map(str, found))} is expected")
        return image._replace(pixels=load_features(path, self.width))
