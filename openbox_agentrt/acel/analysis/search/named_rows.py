"""Write steps of a search as rows of a trace, with the values of keys named as people read them."""

from __future__ import annotations

from collections.abc import Iterable

from .alike_values import Names
from .next_steps import World
from .state import Transition
from .trace_row import TraceRow

__all__ = ("Called", "row_of")

# How values of keys are called in a trace that people read.
_SHOWN = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def row_of(world: World, step: Transition, called: Called, outcome: str) -> TraceRow:
    """Write a step as a row of a trace."""
    if step.kind is not None:
        groups = dict(step.kind.slots)
        values = {group: [v for path, v in step.values if groups[path] == group] for group in groups.values()}
        names = {
            group: dict(zip(some, some, strict=True))
            if world.is_written_out(group)
            else called.of(group, some)
            for group, some in values.items()
        }
        return TraceRow(
            kind="finish" if step.ended else "call",
            tool=step.kind.tool,
            args=world.args_of(step, names),
            outcome="started" if outcome == "lost" else outcome,
            result=world.result_of(step, names) if outcome == "ok" and not step.ended else None,
        )
    if step.entry is None:
        return TraceRow(kind="wait", seconds=step.seconds, until=step.period)
    entry, value, of = step.entry
    group = world.group_of_entry(entry)
    if of is not None and group is not None:
        value = {called.of(group, [of])[of]: value}
    return TraceRow(kind="write", entry=(entry, value))


class Called:
    """Name the values of keys in a trace, alike from their first call to the last."""

    def __init__(self) -> None:
        self.names: dict[str, dict[str, str]] = {}
        self._used: dict[str, int] = {}

    def of(self, group: str, values: Iterable[str]) -> dict[str, str]:
        """Give the names of some values of a group; one that is new gets a new one."""
        known = self.names.setdefault(group, {})
        for value in values:
            if value not in known:
                number = self._used.get(group, 0)
                self._used[group] = number + 1
                # Only values that were made up here are renamed, not texts that a pattern needs.
                known[value] = _SHOWN[number] if len(value) == 1 and number < len(_SHOWN) else value
        return known

    def rename(self, names: Names) -> None:
        """Go on to a state in which values have other names."""
        for group, changed in names.items():
            known = self.names.get(group, {})
            self.names[group] = {new: known.get(old, old) for old, new in changed.items()}
