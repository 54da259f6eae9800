"""The cells that conditions read, whatever their contracts are about."""

from __future__ import annotations

from collections.abc import Iterable

from ..condition.condition import Condition
from ..condition.fact import Fact
from ..match.names import normal_name
from ..match.selector import select
from .rules import Cell, Move, Watch


def count_of(tool: str) -> Cell:
    """Name the cell that counts the calls of a tool. Limits on that tool may share it."""
    selector = select(tool)
    return Cell(kind="tally", of=(selector.identity,), label=selector.text(), forms=(selector.form(),))


def cell_of(fact: Fact) -> Cell:
    """Name the cell that keeps what calls told."""
    return Cell(kind="facts", of=(), label=fact.label, fact=fact)


def watches_of(conditions: Iterable[Condition]) -> tuple[Watch, ...]:
    """List the cells that conditions read, with the tools whose calls change them."""
    watches: dict[Watch, None] = {}
    for condition in conditions:
        for tool in sorted(condition.reads.tools):
            watches[Watch(tool=normal_name(tool), move=Move(cell=count_of(tool), strict=False))] = None
        for fact in condition.facts:
            move = Move(cell=cell_of(fact), strict=False)
            watches |= {Watch(tool=tool, move=move): None for tool in fact.tools}
    return tuple(watches)
