"""A grid of weights over an image, in a picture.

Lengths are in inches, text sizes in points.
"""

from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from regard.views.fonts import drawable, families
from regard.views.labels import readable, shorten
from regard.views.overlay import drawn_size, lit
from regard.views.picture.panels import TITLE_SIZE
from regard.views.scale import Scale
from regard.views.view import Overlay

_SIDE = 1.75  # of the longer side
_PIXELS = 384  # of the longer side
_TITLE = 0.27
_LEAST = 0.9  # of the width, so that a word has room
_INK, _FRAME = "#16181d", "#9aa0ab"


@dataclass(frozen=True)
class OverlayPanel:
    """One overlay with its measures.

    Args:
        overlay: what is drawn.
        title: as it will stand in the picture.
        wide, tall: of the image alone.
    """

    overlay: Overlay
    title: str
    wide: float
    tall: float

    @property
    def width(self) -> float:
        """Of the whole; at least so wide that a word has room."""
        return max(_LEAST, self.wide)

    @property
    def height(self) -> float:
        """Of the whole, its title included."""
        return (_TITLE if self.title else 0.0) + self.tall


def overlay_of(overlay: Overlay) -> OverlayPanel:
    """The measures of an overlay."""
    height, width = overlay.image.shape[:2]
    unit = _SIDE / max(width, height)
    wide, tall = max(0.1, width * unit), max(0.1, height * unit)
    return OverlayPanel(overlay, drawable(shorten(readable(overlay.title), max(12, int(wide / 0.085)))), wide, tall)


def draw_overlay(drawn: Figure, panel: OverlayPanel, scale: Scale, left: float, top: float) -> None:
    """Draw it with its upper left corner there."""
    width, height = drawn.get_size_inches()
    overlay = panel.overlay
    if panel.title:
        drawn.text(left / width, top / height, panel.title, ha="left", va="top", size=TITLE_SIZE, color=_INK,
                   family=families(panel.title), parse_math=False, usetex=False)  # fmt: skip
    axes = drawn.add_axes((left / width, (top - panel.height) / height, panel.wide / width, panel.tall / height))
    tall, wide = overlay.image.shape[:2]
    shown = lit(overlay, scale.levels(overlay.values), *drawn_size(overlay.image, _PIXELS))
    axes.imshow(shown, extent=(0, wide, tall, 0), aspect="auto", interpolation="nearest")
    axes.set(xticks=[], yticks=[], xlim=(0, wide), ylim=(tall, 0))
    for spine in axes.spines.values():
        spine.set(color=_FRAME, linewidth=0.6)
    for box_left, box_top, right, bottom in overlay.boxes:
        corner, sides = (box_left, box_top), (right - box_left, bottom - box_top)
        for color, line in (("#000000", 2.2), ("#ffffff", 1.0)):  # a white line with a dark rim is seen on anything
            axes.add_patch(Rectangle(corner, *sides, fill=False, edgecolor=color, linewidth=line))
