"""Grids of weights over images, in a page: tables whose cells are veils over a background, so that arrow keys, screen
readers and a reader without styles have each weight. An image of several overlays is in the file once.
"""

import base64
from collections.abc import Mapping

from regard.views.overlay import THICKEST, VEIL, drawn_size, key, png, shared
from regard.views.view import Overlay

_SIDE = 320  # CSS pixels of an image's longer side
_PIXELS = 512  # of the longer side, in the file
_STEPS = 50


def overlay_rules(overlays: Mapping[int, Overlay]) -> str:
    """The style of some overlays by their numbers in the page: each image once, each size and each set of boxes."""
    if not overlays:
        return ""
    rules = [f".v{step}{{background:{_veil(1 - step / _STEPS)}}}" for step in range(_STEPS + 1)]
    rules.append(f".bar.light{{background:linear-gradient(to right,{_veil(1)},{_veil(0)}),#e2e5eb}}")
    images = shared(list(overlays.values()))
    for number, image in enumerate(images):
        content = base64.b64encode(png(image, _PIXELS)).decode("ascii")
        rules.append(f":root{{--picture{number}:url(data:image/png;base64,{content})}}")
    places = {key(image): number for number, image in enumerate(images)}
    for number, overlay in overlays.items():
        rows, columns = overlay.values.shape
        if not overlay.values.size:
            continue
        wide, tall = drawn_size(overlay.image, _SIDE)
        cell = max(1, round(wide / columns)), max(1, round(tall / rows))
        size = cell[0] * columns, cell[1] * rows
        picture = f"var(--picture{places[key(overlay.image)]}) right bottom/{size[0]}px {size[1]}px no-repeat"
        rules.append(f".over{number}{{background:{picture}}}")
        if overlay.boxes:
            outlines = f"width:{size[0]}px;height:{size[1]}px;background:url({_boxes(overlay)})"
            rules.append(f".over{number}::after{{{outlines} 0 0/100% 100%}}")
        rules.append(f".over{number} tbody td{{min-width:{cell[0]}px;max-width:{cell[0]}px;height:{cell[1]}px}}")
        for part, side, edge in (("tbody", cell[1], "height"), ("thead", cell[0], "width")):
            rules.append(f".over{number} {part} th{{font-size:{min(10.0, 0.7 * side):.1f}px}}")
            rules.append(f".over{number} {part} th bdi{{max-{edge}:{side}px}}")
    return "\n".join(rules) + "\n"


def veil_class(level: float) -> str:
    """The class of a cell at a level from 0 to 1."""
    return f"v{round(max(0.0, level) * _STEPS)}"


def _veil(share: float) -> str:
    return f"rgba({VEIL[0]},{VEIL[1]},{VEIL[2]},{THICKEST * share:.3f})"


def _boxes(overlay: Overlay) -> str:
    """Outlines as a small SVG of lines, stretched like the image below it."""
    tall, wide = overlay.image.shape[:2]
    outlines = "".join(
        f"<path d='M{left:.1f} {top:.1f}H{right:.1f}V{bottom:.1f}H{left:.1f}Z'/>"
        for left, top, right, bottom in overlay.boxes
    )
    line = max(wide, tall) / 160
    drawn = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {wide} {tall}' preserveAspectRatio='none' fill='none' "
        f"stroke='#fff' stroke-width='{line:.2f}'>{outlines}</svg>"
    )
    return "data:image/svg+xml;base64," + base64.b64encode(drawn.encode("ascii")).decode("ascii")
