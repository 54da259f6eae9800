"""
Rules written in YAML.

The safe loader only, and less than that: what YAML would guess is refused. A tool called ``on`` is not a
boolean, a date is not text, 1:30 is not ninety, and none of them is let through as something else than
what was meant.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias

from ..contracts.shapes import Place
from .errors import ConfigError

if TYPE_CHECKING:
    from yaml.nodes import MappingNode, Node, ScalarNode


Lines: TypeAlias = dict[Place, int]
"""The line of each value, counted from 1."""

MAX_DEPTH = 32
MAX_VALUES = 200_000

_TAG = "tag:yaml.org,2002:"
_DECIMAL = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,300})(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?")
_MERGE = f"{_TAG}merge"


def parse_yaml(text: str, *, max_values: int = MAX_VALUES) -> tuple[Any, Lines]:
    """
    Read one YAML document strictly.

    Args:
        text: The text.
        max_values: How many values there may be once aliases are unfolded.

    Returns:
        The data, which could be JSON, and the line of each value.

    Raises:
        ConfigError: If it is no YAML, or uses what is not allowed here.
    """
    import yaml

    try:
        root = compose_yaml(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        raise ConfigError(f"invalid YAML: {error.problem or error.context}", line=line) from error
    except yaml.YAMLError as error:
        raise ConfigError(f"invalid YAML: {' '.join(str(error).split())}") from error
    if root is None:
        return None, {}
    # Data first: it counts what aliases unfold to, so that the lines are of something bounded.
    data = _Builder(max_values).data(root, 0)
    return data, lines_of(root)


def compose_yaml(text: str) -> Node | None:
    """
    Compose one YAML document, or JSON, without looking at what it means.

    Raises:
        yaml.YAMLError: It is none.
        ConfigError: It is nested too deeply.
    """
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    _check_depth(yaml.parse(text, Loader=loader))
    root: Node | None = yaml.compose(text, Loader=loader)
    return root


def lines_of(root: Node) -> Lines:
    """Find the line of every value under a node."""
    from yaml.nodes import MappingNode, ScalarNode, SequenceNode

    lines: Lines = {}
    waiting: list[tuple[Place, Node, int]] = [((), root, root.start_mark.line)]
    while waiting:
        place, node, line = waiting.pop()
        lines[place] = line + 1
        if isinstance(node, SequenceNode):
            waiting += [
                ((*place, index), item, item.start_mark.line) for index, item in enumerate(node.value)
            ]
        elif isinstance(node, MappingNode):
            # What has a name is where its name is.
            waiting += [
                ((*place, key.value), item, key.start_mark.line)
                for key, item in node.value
                if isinstance(key, ScalarNode)
            ]
    return lines


def _check_depth(events: Any) -> None:
    # Before anything recursive looks at the text.
    from yaml import events as kinds

    depth = 0
    for event in events:
        if isinstance(event, kinds.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise _error("nested too deeply", event)
        elif isinstance(event, kinds.CollectionEndEvent):
            depth -= 1


class _Builder:
    """Turn nodes into data, and refuse what is not allowed."""

    def __init__(self, max_values: int) -> None:
        self._left = max_values

    def data(self, node: Node, depth: int) -> Any:
        from yaml.nodes import MappingNode, ScalarNode, SequenceNode

        self._left -= 1
        if self._left < 0 or depth > MAX_DEPTH:
            # Aliases let a small text unfold into more than fits anywhere, or into itself.
            raise _error("aliases unfold to too much", node)
        kind = node.tag.removeprefix(_TAG)
        if isinstance(node, MappingNode) and kind == "map":
            return self._mapping(node, depth)
        if isinstance(node, SequenceNode) and kind == "seq":
            return [self.data(item, depth + 1) for item in node.value]
        if isinstance(node, ScalarNode):
            return _scalar(node, kind)
        raise _error(f"tag {node.tag!r:.80} is not allowed", node)

    def _mapping(self, node: MappingNode, depth: int) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag == _MERGE:
                for more in self._merged(value, depth):
                    merged = {**more, **merged}
                continue
            name = self.data(key, depth + 1)
            if not isinstance(name, str):
                raise _error(f"a name must be text, got {name!r:.80}; quote it", key)
            if name in own:
                raise _error(f"name {name!r:.80} appears twice in one mapping", key)
            own[name] = self.data(value, depth + 1)
        return {**merged, **own}

    def _merged(self, node: Node, depth: int) -> list[dict[str, Any]]:
        data = self.data(node, depth + 1)
        several = data if isinstance(data, list) else [data]
        if not all(isinstance(one, dict) for one in several):
            raise _error("what is merged with '<<' must be a mapping", node)
        return several


def _scalar(node: ScalarNode, kind: str) -> Any:
    text = node.value
    if kind == "str":
        return text
    if kind == "null":
        return None
    if kind == "bool" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind in ("int", "float") and _DECIMAL.fullmatch(text):
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    raise _error(f"{text!r:.80} reads as {_READS_AS.get(kind, kind)}; quote it if it is text", node)


_READS_AS = {
    "bool": "a boolean, which is written true or false",
    "int": "a number, which is written in decimals",
    "float": "a number, which is written in decimals",
    "timestamp": "a date, which is not allowed",
    "binary": "binary data, which is not allowed",
}


def _error(problem: str, at: Any) -> ConfigError:
    return ConfigError(problem, line=at.start_mark.line + 1)
