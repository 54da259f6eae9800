"""
The base of the templates: declarations that can also be used on their own.

Used without a session, through `on_event`, a template keeps its calls in a memory of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..engine.plan.rule_set import RuleSet
from ..engine.store.session_store import SessionStore
from .declaration import Declaration, Role
from .options import Options
from .rules import NOTHING, Cell, CellKind, Guard, GuardKind, Move, Rule

if TYPE_CHECKING:
    from ..._plain.amounts import Amount
    from ..condition.condition import Condition
    from ..match.matchers import Args
    from ..match.selector import Selector
    from ..verdict import Verdict


class Template(Declaration):
    """
    A declaration with an automaton of its own, for use without a session.

    One of a single role has the rule of the calls that have it in `_rule`, and needs no `rule`.
    """

    _rule: Rule = NOTHING

    def __init__(self, parts: list[str], options: Options, check: Condition | None = None) -> None:
        super().__init__(parts, options, check)
        self._solo: SessionStore | None = None

    def rule(self, hits: tuple[bool, ...]) -> Rule:
        return self._rule if any(hits) else NOTHING

    def _limit(
        self,
        what: Selector,
        guard: GuardKind,
        kind: CellKind,
        n: Amount,
        needs: str | None = None,
        **of_cell: Any,
    ) -> Cell:
        """Let the calls of `what` be limited by what they move themselves, and give that memory."""
        self.roles = (Role(selector=what, strict=True),)
        cell = self.cell(kind, what, **of_cell)
        limit = Guard(kind=guard, cell=cell, n=n, needs=needs)
        self._rule = Rule(guards=(limit,), moves=(Move(cell=cell),))
        return cell

    def _step(self, tool: str, args: Args) -> Verdict:
        return self._alone().happened(tool, args, self)

    def _finalize(self) -> Verdict:
        alone = self._alone()
        alone.end()
        return alone.verdict_of(self)

    def _reset(self) -> None:
        self._solo = None

    def _alone(self) -> SessionStore:
        if self._solo is None:
            home = self._home
            self._solo = SessionStore(RuleSet(alone=True))
            self._solo.add(self)
            self._home = home
        return self._solo

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_solo": None}
