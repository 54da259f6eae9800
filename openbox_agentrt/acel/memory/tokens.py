"""Prerequisites of which each allows one call."""

from __future__ import annotations

import bisect
from typing import Any, NamedTuple

from ..contracts.rules import MAX_IN_WINDOW
from .call import JudgedCall
from .cell import LiveCell, Mover, Role, RoleMover
from .clock import MonotoneClock
from .guard import CellGuard


class Token(NamedTuple):
    """Hold one prerequisite, with when it was given and its number."""

    at: float
    number: int


class _Use:
    """Hold what a call has used up: the prerequisite it got, if any, and how many had been given."""

    __slots__ = ("given", "token")

    def __init__(self, token: Token | None, given: int) -> None:
        self.token = token
        self.given = given


class Tokens(LiveCell):
    """
    Keep the prerequisites that have not been used up.

    With `saving`, they add up; without, a new one replaces the old. In a window, the oldest is used
    first, and one that is older than the window is gone.

    A call may have run without one: in a session that only watches, or because other arguments ran than
    were judged. If a prerequisite that was there for it is given back later, it is the one to use it up.
    """

    __slots__ = ("_given", "_refund", "_saving", "_without", "timeline", "tokens", "within")

    def __init__(
        self,
        *,
        saving: bool = True,
        refund: bool = False,
        timeline: MonotoneClock | None = None,
        within: float | None = None,
    ) -> None:
        self._saving = saving
        self._refund = refund
        self.timeline = timeline
        self.within = within
        self.tokens: list[Token] = []
        self._given = 0
        self._without: list[_Use] = []

    def mover(self, role: Role) -> Mover:
        return _Give(self) if role == "give" else _Take(self)

    def left(self) -> int:
        """Count those that are left."""
        if self.timeline is not None and self.within is not None:
            while self.tokens and self.timeline.now - self.tokens[0].at > self.within:
                del self.tokens[0]
        return len(self.tokens)

    def give(self) -> None:
        """Add one unused prerequisite."""
        self._given += 1
        if not self._saving:
            self.tokens.clear()
        elif len(self.tokens) >= MAX_IN_WINDOW:
            # Forgetting a prerequisite can only refuse more.
            del self.tokens[0]
        self.tokens.append(Token(0.0 if self.timeline is None else self.timeline.now, self._given))

    def take(self) -> _Use:
        """Use one up, and return what `put_back` needs."""
        use = _Use(self.tokens.pop(0) if self.left() else None, self._given)
        if use.token is None:
            self._without.append(use)
            del self._without[:-MAX_IN_WINDOW]
        return use

    def put_back(self, use: _Use) -> None:
        """Give back one that was used by a call that never ran."""
        token = use.token
        if token is None:
            self._without = [other for other in self._without if other is not use]
            return
        for other in self._without:
            if other.given >= token.number:
                other.token = token
                self._without.remove(other)
                return
        # Without saving, one that was given since has replaced it.
        if self._saving or token.number == self._given:
            bisect.insort(self.tokens, token)

    def settle_failed(self, use: _Use) -> None:
        """Take note that the call that used one ran and failed."""
        if self._refund:
            self.put_back(use)

    def idle(self) -> bool:
        return not self.left()

    def dump(self) -> list[float]:
        return [token.at for token in self.tokens]

    def load(self, data: list[float]) -> None:
        self.tokens = [Token(float(at), 0) for at in data]
        self._given, self._without = 0, []


class _Give(RoleMover):
    __slots__ = ()

    role = "give"
    cell: Tokens

    def reserve(self, call: JudgedCall) -> None:
        return None

    def commit(self, ticket: None, call: JudgedCall) -> None:
        self.cell.give()


class _Take(RoleMover):
    __slots__ = ()

    role = "take"
    cell: Tokens

    def reserve(self, call: JudgedCall) -> _Use:
        return self.cell.take()

    def fail(self, ticket: _Use, call: JudgedCall) -> None:
        self.cell.settle_failed(ticket)

    def undo(self, ticket: _Use, call: JudgedCall) -> None:
        self.cell.put_back(ticket)


class HasToken(CellGuard):
    """Require an unused prerequisite."""

    __slots__ = ()

    renews = False

    def holds(self, cell: Any, call: JudgedCall) -> bool:
        return bool(cell.left())
