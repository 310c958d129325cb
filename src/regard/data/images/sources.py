"""From settings to pictures: one function for all sources."""

from regard.data.images.captioned import Part, Pictures
from regard.data.images.emoji import EmojiCast
from regard.data.images.folder import FolderPictures
from regard.data.images.glyphs import GlyphCast
from regard.data.images.scenes import Scenes
from regard.data.images.settings import CaptionedFolder, EmojiScenes, MadeScenes


def pictures(settings: MadeScenes | EmojiScenes | CaptionedFolder, seed: int, part: Part) -> Pictures:
    """The pictures of a part.

    Args:
        settings: which source.
        seed: draws made scenes; a folder is as it is.
        part: "training", "validation", "test", or "unseen": made scenes with a pair that no training scene has.

    Raises:
        ConfigError: unseen pairs of a source that holds none out.
        DataError: files that are missing or say something else than expected.
    """
    if isinstance(settings, MadeScenes):
        return Scenes(GlyphCast(settings.held_out, settings.language), settings, seed, part)
    if isinstance(settings, EmojiScenes):
        return Scenes(EmojiCast(settings), settings, seed, part)
    return FolderPictures(settings, part)
