"""YAML of plain values, as settings are: whatever the text, the answer is a value or a YAML error that says why.

A safe loader alone still builds a value that holds itself, or one of a billion parts from ten lines (both by aliases).
It lets the last of two equal keys win, and an impossible date or a key that is a list end in other errors than YAML's.
"""

from typing import Any

import yaml


class _Plain(yaml.SafeLoader):
    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()
            raise yaml.MarkedYAMLError(
                problem=f"the alias *{event.anchor} is not taken here; write the value out",
                problem_mark=event.start_mark,
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys: set[Any] = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(
                    problem="a list or mapping cannot be a key; write key: value", problem_mark=key_node.start_mark
                )
            key = self.construct_object(key_node, deep=True)
            if key in keys:
                raise yaml.MarkedYAMLError(problem=f"the key {key!r} is given twice", problem_mark=key_node.start_mark)
            keys.add(key)
        return super().construct_mapping(node, deep=deep)


def load_plain(text: str) -> Any:
    """The value of a YAML text.

    Raises:
        yaml.YAMLError: it is no YAML, or holds an alias, a tag, a repeated key or more than plain values.
    """
    try:
        return yaml.load(text, Loader=_Plain)  # noqa: S506 - a SafeLoader
    except RecursionError as error:
        raise yaml.YAMLError("it is nested too deeply") from error
    except ValueError as error:  # an impossible date or number
        raise yaml.YAMLError(str(error)) from error
