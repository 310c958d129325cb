"""JSON files of other programs: read whole; errors name the file that is not as expected."""

import json
from pathlib import Path
from typing import Any

from regard.errors import DataError


def read_json(path: Path) -> Any:
    """The content of a JSON file.

    Raises:
        DataError: no such file, or no JSON in UTF-8.
    """
    try:
        return json.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise DataError(f"{path}: this file cannot be opened: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: this is no JSON: {error}") from error


def entries(content: Any, name: str, path: Path) -> list[dict[str, Any]]:
    """The list of tables that a file is, or has under a name.

    Raises:
        DataError: it has none.
    """
    listed = content.get(name) if isinstance(content, dict) else content
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise DataError(f'{path}: expected a list of {{…}} named "{name}"')
    return listed
