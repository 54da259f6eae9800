"""Where in a text each value stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from yaml.nodes import Node

__all__ = ("Lines", "Place", "lines_of", "written")

Place: TypeAlias = tuple[str | int, ...]
"""The way to a value: names in mappings and positions in lists."""

Lines: TypeAlias = dict[Place, int]


def lines_of(root: Node) -> Lines:
    """The line of every value under a node, counted from 1."""
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


def written(place: Place) -> str:
    """A place as one writes it: ``contracts[2].args[0]``, ``groups['refunds'][1]``."""
    text = ""
    for position, part in enumerate(place):
        if isinstance(part, int):
            text += f"[{part}]"
        elif position == 1 and place[0] in ("groups", "state", "initial_state"):
            text += f"[{part!r}]"
        else:
            text += f".{part}" if text else part
    return text
