"""From settings to images: one function for all sources."""

from regard.data.images.captioned import ImageSource, Part
from regard.data.images.emoji import EmojiObjects
from regard.data.images.folder import ImageFolder
from regard.data.images.glyphs import GlyphObjects
from regard.data.images.scenes import SyntheticScenes
from regard.data.images.settings import CaptionedFolder, EmojiScenes, GlyphScenes


def image_source(settings: GlyphScenes | EmojiScenes | CaptionedFolder, seed: int, part: Part) -> ImageSource:
    """The images of a part.

    Args:
        settings: which source.
        seed: draws synthetic scenes; a folder is as it is.
        part: "training", "validation", "test", or "unseen": synthetic scenes with a pair that no training scene has.

    Raises:
        ConfigError: unseen pairs of a source that holds none out.
        DataError: files that are missing or say something else than expected.
    """
    if isinstance(settings, GlyphScenes):
        return SyntheticScenes(GlyphObjects(settings.held_out, settings.language), settings, seed, part)
    if isinstance(settings, EmojiScenes):
        return SyntheticScenes(EmojiObjects(settings), settings, seed, part)
    return ImageFolder(settings, part)
