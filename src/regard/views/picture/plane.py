"""A plane in a picture: polylines with a point at each vertex, labelled.

Lengths are in inches, text sizes in points.
"""

from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from regard.views.curves import COLORS
from regard.views.fonts import drawable, families
from regard.views.labels import readable, shorten, visible
from regard.views.picture.panels import LABEL_SIZE, TITLE_SIZE
from regard.views.plane import PlaneLayout
from regard.views.view import Plane

_SIDE = 2.6  # of the longer axis
_MARGIN = 0.28  # for labels at the rim
_TITLE = 0.3
_LEAST = 1.6  # of the width, so that a title has room
_INK, _FRAME = "#16181d", "#dfe2e8"
_HALO = withStroke(linewidth=2.5, foreground="white")  # a label stays readable on a line


@dataclass(frozen=True)
class PlanePanel:
    """One plane with its measures.

    Args:
        layout: where its points stand.
        title: as it will stand in the picture.
    """

    layout: PlaneLayout
    title: str

    @property
    def width(self) -> float:
        """Of the whole, margins included."""
        return max(_LEAST, self.layout.wide * _SIDE) + 2 * _MARGIN

    @property
    def height(self) -> float:
        """Of the whole, title and margins included."""
        return (_TITLE if self.title else 0.0) + self.layout.tall * _SIDE + 2 * _MARGIN


def plane_of(plane: Plane) -> PlanePanel:
    """The measures of a plane."""
    return PlanePanel(PlaneLayout.of(plane), drawable(shorten(readable(plane.title), 44)))


def draw_plane(drawn: Figure, panel: PlanePanel, left: float, top: float) -> None:
    """Draw it with its upper left corner there."""
    width, height = drawn.get_size_inches()
    layout = panel.layout
    if panel.title:
        drawn.text(left / width, top / height, panel.title, ha="left", va="top", size=TITLE_SIZE, color=_INK,
                   family=families(panel.title), parse_math=False, usetex=False)  # fmt: skip
    tall = layout.tall * _SIDE + 2 * _MARGIN
    bottom = top - panel.height
    axes = drawn.add_axes((left / width, bottom / height, panel.width / width, tall / height))
    pad = _MARGIN / _SIDE
    axes.set_xlim(-pad, panel.width / _SIDE - pad)
    axes.set_ylim(-pad, layout.tall + pad)
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set(color=_FRAME, linewidth=0.8)
    for number, polyline in enumerate(layout.polylines):
        color = COLORS[number % len(COLORS)]
        axes.plot([mark.x for mark in polyline], [mark.y for mark in polyline], color=color, linewidth=1.4, zorder=1)
    axes.scatter([mark.x for mark in layout.marks], [mark.y for mark in layout.marks], s=14, color=_INK, zorder=2)
    for mark in layout.marks:
        label = drawable(shorten(visible(mark.label), 12))
        axes.annotate(label, (mark.x, mark.y), (3.5, 3.5), textcoords="offset points", size=LABEL_SIZE, color=_INK,
                      family=families(label), path_effects=[_HALO], parse_math=False, usetex=False)  # fmt: skip
