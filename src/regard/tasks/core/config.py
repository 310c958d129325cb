"""Settings from a file and from `key=value` arguments, checked all at once.

No torch here: the command line reads settings, and prints them or their errors, before it loads anything slow.
"""

import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from regard.errors import ConfigError, nearest, quoted
from regard.training.run.plain_yaml import load_plain

Settings = TypeVar("Settings", bound=BaseModel)
Tree = dict[str, Any]


class Typed(str):
    """A value as it was typed on the command line: text until the setting that it meets says what it is."""


def parse_yaml(text: str, origin: str) -> Tree:
    """A mapping of settings from YAML text; anything else is an error that names `origin`.

    Raises:
        ConfigError: the text is not valid YAML, or is no mapping.
    """
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
    """Settings from a YAML file, as a tree of plain values.

    Raises:
        ConfigError: the file is not there, is a folder, or is not UTF-8; or its text is not valid YAML, or no mapping.
    """
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

    Raises:
        ConfigError: one or more are not of that form; the message lists all of them.
    """
    tree: Tree = {}
    wrong: list[str] = []
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        parts = key.strip().split(".")
        if not equals or not all(parts):
            wrong.append(f"{quoted(assignment)} is not a setting; write key=value, as in model.dropout=0.3")
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
            raise ConfigError(f"{key}: {quoted(text)} is not a valid list or mapping: {_problem(error)}") from error
    return Typed(text)


def _free(text: str, key: str) -> Any:
    """A value as YAML reads it, for a setting that declares no type."""
    try:
        return load_plain(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{key}: {quoted(text)} is not a valid value: {_problem(error)}; quote it") from error


def _problem(error: yaml.YAMLError) -> str:
    return str(error.problem if isinstance(error, yaml.MarkedYAMLError) else error)


def put(tree: Tree, parts: Sequence[str], value: Any) -> None:
    """Set one dotted key in a tree, making the branches on the way.

    Raises:
        ConfigError: a key on the way has a value of its own already, and is no branch.
    """
    branch = tree
    for depth, part in enumerate(parts[:-1]):
        branch = branch.setdefault(part, {})
        if not isinstance(branch, dict):
            raise ConfigError(f"{'.'.join(parts)}: {'.'.join(parts[: depth + 1])} is set to {quoted(branch)} already")
    branch[parts[-1]] = value


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> Tree:
    """Both trees merged; where both set a key, `over` wins."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def branch(tree: Mapping[str, Any], name: str) -> Tree:
    """The settings below a key of an unchecked tree; an empty tree where the value is no mapping."""
    part = tree.get(name)
    return part if isinstance(part, dict) else {}


def check(kind: type[Settings], tree: Tree, also: Callable[[Tree], list[str]] | None = None) -> Settings:
    """Settings of one kind from a tree; every error at once, each with its dotted key and the nearest right one.

    Args:
        kind: the settings class.
        tree: plain values by key.
        also: finds further errors in the tree, those that the settings classes cannot know.

    Raises:
        ConfigError: a key is unknown or missing, or a value does not fit; the message lists all of them.
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
    """Typed values as plain ones. In a free mapping, no settings class will convert "64" to a number."""
    settled: Tree = {}
    for key, value in tree.items():
        field = kind.model_fields.get(key) if kind is not None else None
        if isinstance(value, dict):
            settled[key] = _settle(*_choose_kind(field, value)) if field else _settle(None, value)
        elif isinstance(value, Typed):
            settled[key] = str(value) if kind is not None else _free(value, key)
        else:
            settled[key] = value
    return settled


def _choose_kind(field: FieldInfo, tree: Mapping[str, Any]) -> tuple[type[BaseModel] | None, Mapping[str, Any]]:
    """The settings class of the tree at this field, and the tree with the key that names it.

    Of several classes, a key such as `kind` names one; without that key it is the default's.
    """
    options, key = _options(field.annotation), field.discriminator
    if len(options) < 2 or not isinstance(key, str):
        return (options[0] if options else None), tree
    if key not in tree and isinstance(field.default, BaseModel):
        tree = {key: getattr(field.default, key), **tree}
    named = [one for one in options if str(tree.get(key)) in typing.get_args(one.model_fields[key].annotation)]
    return (named[0] if named else options[0]), tree


def _line(kind: type[BaseModel], problem: Mapping[str, Any]) -> str:
    owner, path = _place(kind, [str(part) for part in problem["loc"]])
    dotted = ".".join(path) or "settings"
    given = problem["input"]
    context = problem.get("ctx", {})
    if problem["type"] == "extra_forbidden":
        return f"{dotted}: no such setting.{_near_key(kind, owner, path)}"
    if problem["type"].startswith("union_tag"):
        tag, options = context.get("tag"), re.findall("'([^']*)'", context.get("expected_tags", ""))
        key = f"{dotted}.{context['discriminator'].strip(chr(39))}"
        if tag is None:
            return f"{key}: must be given"
        return f"{key}: {quoted(tag)} is not one of its values.{nearest(str(tag), options)}"
    if problem["type"] == "missing":
        return f"{dotted}: must be given"
    if problem["type"] == "literal_error":
        options = [option.strip("' ") for option in context["expected"].replace(" or ", ", ").split(",")]
        return f"{dotted}: {quoted(given)} is not one of its values.{nearest(str(given), options)}"
    if problem["type"] == "value_error":
        return f"{dotted}: {context['error']}"
    return f"{dotted}: {problem['msg']}, given {quoted(given)}"


def _place(kind: type[BaseModel], location: Sequence[str]) -> tuple[type[BaseModel], list[str]]:
    """The settings class at whose key a fault is, and the key's path.

    A location names, after a key that may be of several classes, the one that was tried; the user has not written it.
    """
    path: list[str] = []
    options: list[type[BaseModel]] = [kind]
    for part in location:
        tried = [one for one in options if _tag(one, options) == part]
        if path and len(options) > 1 and tried:
            options = tried
            continue
        if not options:
            path.append(part)  # within a value, such as a list
            continue
        path.append(part)
        kind, field = options[0], options[0].model_fields.get(part)
        options = _options(field.annotation) if field else []
    return kind, path


def _tag(kind: type[BaseModel], options: list[type[BaseModel]]) -> str | None:
    """The one value of the key that distinguishes the options."""
    for name, field in kind.model_fields.items():
        values = typing.get_args(field.annotation)
        named = typing.get_origin(field.annotation) is typing.Literal and len(values) == 1
        if named and all(name in one.model_fields for one in options):
            return str(values[0])
    return None


def _near_key(kind: type[BaseModel], owner: type[BaseModel], path: list[str]) -> str:
    """The nearest key at the same place; else the place where a key of that very name lives."""
    elsewhere = [key for key in keys(kind) if key.split(".")[-1] == path[-1] and key != ".".join(path)]
    if elsewhere:
        return f" Did you mean {' or '.join(repr(key) for key in elsewhere)}?"
    return nearest(path[-1], list(owner.model_fields))


def _options(annotation: Any) -> list[type[BaseModel]]:
    """The settings classes that an annotation such as `X`, `X | None` or `X | Y` holds."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return [one for option in typing.get_args(annotation) for one in _options(option)]
    return []


def keys(kind: type[BaseModel], prefix: str = "") -> list[str]:
    """Every dotted key of a settings class, leaves only; where there may be one of several classes, those of all."""
    found: list[str] = []
    for name, field in kind.model_fields.items():
        options = _options(field.annotation)
        inner = [key for option in options for key in keys(option, f"{prefix}{name}.")]
        found += inner if options else [prefix + name]
    return list(dict.fromkeys(found))


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
