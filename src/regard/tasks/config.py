"""Settings from a file and from `key=value` arguments, checked all at once.

No torch here: the command line reads settings, and prints them or their errors, before it loads anything slow.
"""

import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from regard.errors import ConfigError, nearest
from regard.training.plain_yaml import load_plain

Settings = TypeVar("Settings", bound=BaseModel)
Tree = dict[str, Any]


class Typed(str):
    """A value as it was typed on the command line: text until the setting that it meets says what it is."""


def parse_yaml(text: str, origin: str) -> Tree:
    """A mapping of settings from YAML text; anything else is an error that names `origin`."""
    try:
        tree = load_plain(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"{origin}, line {mark.line + 1}" if mark else origin
        raise ConfigError(f"{place}: not valid YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{origin}: not valid YAML: {error}") from error
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise ConfigError(f"{origin}: expected settings as `key: value`, found a {type(tree).__name__}")
    return tree


def read_yaml(path: str | Path) -> Tree:
    """Settings from a YAML file, as a tree of plain values."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from error
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file of settings") from error
    except IsADirectoryError as error:
        raise ConfigError(f"{path} is a folder; a YAML file of settings is expected") from error
    return parse_yaml(text, str(path))


def parse_assignments(assignments: Sequence[str]) -> Tree:
    """Settings from `dotted.key=value` arguments; all malformed ones are reported together.

    A value is text, which the setting it meets converts; `null`, `[…]` and `{…}` are read as YAML.
    """
    tree: Tree = {}
    wrong: list[str] = []
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        parts = key.strip().split(".")
        if not equals or not all(parts):
            wrong.append(f"{assignment!r} is not a setting; write key=value, as in model.dropout=0.3")
            continue
        try:
            put(tree, parts, _value(value, key))
        except ConfigError as error:
            wrong.append(str(error))
    if wrong:
        raise ConfigError("\n".join(wrong))
    return tree


def _value(text: str, key: str) -> Any:
    stripped = text.strip()
    if stripped in ("null", "~"):
        return None
    if stripped[:1] in ("[", "{"):
        try:
            return load_plain(stripped)
        except yaml.YAMLError as error:
            raise ConfigError(f"{key}: {_short(text)} is not a valid list or mapping: {_problem(error)}") from error
    return Typed(text)


def _free(text: str, key: str) -> Any:
    """A value as YAML reads it, for a setting that says nothing of its kind."""
    try:
        return load_plain(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{key}: {_short(text)} is not a valid value: {_problem(error)}; quote it") from error


def _problem(error: yaml.YAMLError) -> str:
    return str(error.problem if isinstance(error, yaml.MarkedYAMLError) else error)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else text[:97] + "…"


def put(tree: Tree, parts: Sequence[str], value: Any) -> None:
    """Set one dotted key in a tree, making the branches on the way."""
    branch = tree
    for depth, part in enumerate(parts[:-1]):
        branch = branch.setdefault(part, {})
        if not isinstance(branch, dict):
            raise ConfigError(f"{'.'.join(parts)}: {'.'.join(parts[: depth + 1])} is set to {branch!r} already")
    branch[parts[-1]] = value


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> Tree:
    """Both trees as one; where both speak, `over` wins."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def check(kind: type[Settings], tree: Tree, also: Callable[[Tree], list[str]] | None = None) -> Settings:
    """Settings of one kind from a tree; every error at once, each with its dotted key and the nearest right one.

    Args:
        kind: the settings class.
        tree: plain values by key.
        also: finds further errors in the tree, those that the settings classes cannot know.
    """
    lines: list[str] = []
    settings: Settings | None = None
    settled = _settle(kind, tree)
    try:
        settings = kind.model_validate(settled)
    except ValidationError as error:
        lines = [_line(kind, problem) for problem in error.errors(include_url=False)]
    lines += also(settled) if also is not None else []
    if settings is None or lines:
        count = "1 setting is" if len(lines) == 1 else f"{len(lines)} settings are"
        raise ConfigError(f"{count} wrong:\n" + "\n".join(f"  {line}" for line in lines))
    return settings


def _settle(kind: type[BaseModel] | None, tree: Mapping[str, Any]) -> Tree:
    """Typed values as plain ones. Where the setting is a free mapping, nobody else will read "64" as a number."""
    settled: Tree = {}
    for key, value in tree.items():
        field = kind.model_fields.get(key) if kind is not None else None
        if isinstance(value, dict):
            settled[key] = _settle(_inner(field.annotation) if field else None, value)
        elif isinstance(value, Typed):
            settled[key] = str(value) if kind is not None else _free(value, key)
        else:
            settled[key] = value
    return settled


def _line(kind: type[BaseModel], problem: Mapping[str, Any]) -> str:
    path = [str(part) for part in problem["loc"]]
    dotted = ".".join(path) or "settings"
    given = problem["input"]
    context = problem.get("ctx", {})
    if problem["type"] == "extra_forbidden":
        return f"{dotted}: no such setting.{_near_key(kind, path)}"
    if problem["type"] == "missing":
        return f"{dotted}: must be given"
    if problem["type"] == "literal_error":
        options = [option.strip("' ") for option in context["expected"].replace(" or ", ", ").split(",")]
        return f"{dotted}: {_short(given)} is not one of its values.{nearest(str(given), options)}"
    if problem["type"] == "value_error":
        return f"{dotted}: {context['error']}"
    return f"{dotted}: {problem['msg']}, given {_short(given)}"


def _near_key(kind: type[BaseModel], path: list[str]) -> str:
    """The nearest key at the same place; else the place where a key of that very name lives."""
    siblings = _fields_at(kind, path[:-1])
    elsewhere = [key for key in keys(kind) if key.split(".")[-1] == path[-1]]
    if elsewhere:
        return f" Did you mean {' or '.join(repr(key) for key in elsewhere)}?"
    return nearest(path[-1], siblings)


def _fields_at(kind: type[BaseModel], path: Sequence[str]) -> list[str]:
    for part in path:
        field = kind.model_fields.get(part)
        inner = _inner(field.annotation) if field else None
        if inner is None:
            break
        kind = inner
    return list(kind.model_fields)


def _inner(annotation: Any) -> type[BaseModel] | None:
    """The settings class that an annotation such as `X` or `X | None` holds."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        for option in typing.get_args(annotation):
            inner = _inner(option)
            if inner is not None:
                return inner
    return None


def keys(kind: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Every dotted key of a settings class, leaves only."""
    for name, field in kind.model_fields.items():
        inner = _inner(field.annotation)
        if inner is None:
            yield prefix + name
        else:
            yield from keys(inner, f"{prefix}{name}.")


def leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a tree under its dotted key; an empty mapping is a value."""
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def as_yaml(settings: BaseModel) -> str:
    """Settings as a YAML file that reads back to the same, each key under its description."""
    return "\n".join(_yaml_lines(settings, 0)) + "\n"


def _yaml_lines(settings: BaseModel, depth: int) -> Iterator[str]:
    indent = "  " * depth
    values = settings.model_dump(mode="json")
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if depth == 0 and isinstance(value, BaseModel):
            yield ""
        if field.description:
            yield f"{indent}# {' '.join(field.description.split())}"
        if isinstance(value, BaseModel):
            yield f"{indent}{name}:"
            yield from _yaml_lines(value, depth + 1)
        else:
            yield f"{indent}{name}: {one_line(values[name])}"


def one_line(value: Any) -> str:
    """A plain value as YAML on one line."""
    text = yaml.safe_dump(value, allow_unicode=True, default_flow_style=True, width=float("inf"))
    return text.removesuffix("...\n").rstrip("\n")
