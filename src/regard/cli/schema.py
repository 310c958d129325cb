"""`regard schema`: the settings as a JSON schema, for editors and other programs."""

import json
from typing import Annotated

import typer

from regard.cli.app import app
from regard.cli.command import command
from regard.cli.console import out


@command(app, "schema", examples="regard schema\nregard schema translation > translation.schema.json")
def schema(task: Annotated[str, typer.Argument(help="The task whose settings are described.")] = "translation") -> None:
    """Print the JSON schema of a task's settings."""
    from regard.tasks.core.settings import settings_of

    kind = settings_of(task)
    out(json.dumps(kind.model_json_schema(), ensure_ascii=False, indent=2))
