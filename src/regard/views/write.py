"""One view into one file; the ending says how."""

from collections.abc import Callable
from pathlib import Path

from regard.errors import ConfigError, nearest
from regard.files import write_atomically
from regard.views.page.page import page
from regard.views.tables import to_csv, to_json
from regard.views.view import View

TEXTS: dict[str, Callable[[View], str]] = {"html": page, "json": to_json, "csv": to_csv}
PICTURES = ("png", "svg")


def write(view: View, path: str | Path) -> Path:
    """Write a view as .html, .png, .svg, .json or .csv, whole or not at all.

    Returns:
        The path of the file.

    Raises:
        ConfigError: another ending.
    """
    target = Path(path)
    ending = check_ending(target)
    if ending in TEXTS:
        return write_atomically(target, TEXTS[ending](view))
    from regard.views.picture.picture import picture  # matplotlib takes half a second to import

    return picture(view, target)


def check_ending(path: str | Path) -> str:
    """The ending of a path, if a view can be written under it; a command checks it before its work, not after.

    Raises:
        ConfigError: another ending.
    """
    ending = Path(path).suffix.lower().removeprefix(".")
    if ending in TEXTS or ending in PICTURES:
        return ending
    raise ConfigError(
        f"a view is not written as {str(path)!r}: the name's ending says the format."
        f"{nearest(ending, [*TEXTS, *PICTURES])}"
    )
