"""
The base of the templates: declarations that can also be used on their own.

Used without a session, through `on_event`, a template keeps its calls in a memory of its own.
"""

from __future__ import annotations

from typing import Any

from ..condition.condition import Condition
from ..engine.rule_set import RuleSet
from ..engine.store import SessionStore
from ..match.matchers import Args
from ..verdict import Verdict
from .declaration import Declaration, Options


class Template(Declaration):
    """A declaration with an automaton of its own, for use without a session."""

    def __init__(self, parts: list[str], options: Options, check: Condition | None = None) -> None:
        super().__init__(parts, options, check)
        self._solo: SessionStore | None = None

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
