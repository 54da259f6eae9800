"""
Contracts about what has to come before a call.

What allows another call counts once it has succeeded.
"""

from __future__ import annotations

from typing import Unpack

from ..match.matchers import ToolMatcher
from ..match.selector import Selector, select
from .declaration import Role
from .options import Options
from .rules import NOTHING, Guard, Move, Rule
from .template import Template


class _Precedence(Template):
    """
    `then` only after a successful `first`, and with `since` one that began after the latest such call.

    A call that is both is no earlier success of its own: it needs one, and is one to later calls. Only where
    both are the very same is it fine, as with acel-core. A call that is `since` voids what was given before
    from the moment it is let through; if it is `first` as well, it is what counts from then on.
    """

    keyed_roles = 2
    # What voids a prerequisite voids it in any case.
    when_roles = 1

    def __init__(
        self,
        first: Selector,
        then: Selector,
        written: list[str],
        since: ToolMatcher | None,
        options: Options,
    ) -> None:
        voids = None if since is None else select(since)
        super().__init__(written if voids is None else [*written, f"since={voids.label}"], options)
        self.since = since
        if voids is not None and self.reach.is_fleet:
            raise ValueError(
                f"{self.template} with since cannot have scope 'fleet': order is that of a session"
            )
        roles = (Role(selector=first, strict=False), Role(selector=then, strict=True))
        self.roles = roles if voids is None else (*roles, Role(selector=voids, strict=True))
        # Set in every contract, as `goal`: Python gives one with an attribute more a dictionary of its own.
        self._void: Move | None = None
        if voids is not None:
            seen = self.cell("fresh", first, voids, strict=False)
            need = Guard(kind="fresh", cell=seen, needs=f"{first.label} after the latest {voids.label}")
            self._give = Move(cell=seen, role="give", strict=False)
            self._void = Move(cell=seen, role="void", strict=False)
            self.recheck = self.rechecks is not False
        else:
            seen = self.cell("tally" if self.within is None else "marks", first, strict=False)
            need = Guard(kind="need", cell=seen, needs=first.label)
            self._give = Move(cell=seen, strict=False)
        self.goal = need if voids is None and self.key is None and not self.ends else None
        self._guards = () if first.identity == then.identity else (need,)

    def rule(self, hits: tuple[bool, ...]) -> Rule:
        first, then, voids = (*hits, False)[:3]
        if not (first or then or voids):
            return NOTHING
        # What is voided is voided before it is given anew.
        moves = (self._void,) if voids and self._void is not None else ()
        moves = (*moves, self._give) if first else moves
        return Rule(guards=self._guards if then else (), moves=moves)


class MustPrecede(_Precedence):
    """
    Every call of `later` comes after a successful call of `earlier`.

    With `since`, after one that began after the latest call of `since`.
    """

    template = "must_precede"
    local_because = None

    def __init__(
        self,
        earlier: ToolMatcher,
        later: ToolMatcher,
        *,
        since: ToolMatcher | None = None,
        **options: Unpack[Options],
    ) -> None:
        first, then = select(earlier), select(later)
        super().__init__(first, then, [first.label, then.label], since, options)
        self.earlier = earlier
        self.later = later


class CannotFollowWithout(_Precedence):
    """
    No call of `action` without an earlier, successful call of `prerequisite`.

    With `since`, without one that began after the latest call of `since`.
    """

    template = "cannot_follow_without"
    local_because = None

    def __init__(
        self,
        action: ToolMatcher,
        prerequisite: ToolMatcher,
        *,
        since: ToolMatcher | None = None,
        **options: Unpack[Options],
    ) -> None:
        first, then = select(prerequisite), select(action)
        super().__init__(first, then, [then.label, first.label], since, options)
        self.action = action
        self.prerequisite = prerequisite


class AlternatePrecedence(Template):
    """
    Each call of `b` uses up one successful call of `a`.

    Two calls of `a` allow two of `b`. Declare's own reading, in which `a a` allows one `b`, is
    ``saving=False``.
    """

    template = "alternate_precedence"
    local_because = None

    def __init__(
        self,
        a: ToolMatcher,
        b: ToolMatcher,
        *,
        saving: bool = True,
        refund_on_failure: bool = False,
        **options: Unpack[Options],
    ) -> None:
        first, then = select(a), select(b)
        parts = [first.label, then.label] + ["saving=False"] * (not saving)
        super().__init__([*parts, *["refund_on_failure=True"] * refund_on_failure], options)
        self.a = a
        self.b = b
        self.saving = saving
        self.refund_on_failure = refund_on_failure
        self.roles = (Role(selector=first, strict=False), Role(selector=then, strict=True))
        tokens = self.cell("tokens", first, then, saving=saving, refund=refund_on_failure)
        self._give = Move(cell=tokens, role="give", strict=False)
        self._take = Move(cell=tokens, role="take")
        self._token = Guard(kind="token", cell=tokens, needs=first.label)

    def rule(self, hits: tuple[bool, ...]) -> Rule:
        moves = (self._take,) * hits[1] + (self._give,) * hits[0]
        return Rule(guards=(self._token,) * hits[1], moves=moves) if moves else NOTHING


class ChainPrecedence(Template):
    """
    The call immediately before each `b` is a successful `a`.

    Every call of the session is looked at; one that never ran was not there. With `key`, only calls
    with the same value are.
    """

    template = "chain_precedence"
    local_because = "the order of calls is that of one session"
    everywhere = True

    def __init__(self, a: ToolMatcher, b: ToolMatcher, **options: Unpack[Options]) -> None:
        first, then = select(a), select(b)
        super().__init__([first.label, then.label], options)
        self.a = a
        self.b = b
        self.roles = (Role(selector=first, strict=False), Role(selector=then, strict=True))
        latest = self.cell("latest", within=None)
        step = self.cell("step", first, strict=False)
        self._look = Move(cell=latest, strict=False)
        self._mark = Move(cell=step, strict=False)
        self._next = Guard(kind="next", cell=step, other=latest, needs=f"{first.label} immediately before")

    def rule(self, hits: tuple[bool, ...]) -> Rule:
        moves = (self._look, self._mark) if hits[0] else (self._look,)
        return Rule(guards=(self._next,) * hits[1], moves=moves)


class Init(Template):
    """
    Nothing but `a` until `a` has succeeded.

    It is about every call of the session. In a governed run the first event is ``run_started``.
    """

    template = "init"
    local_because = "a beginning is that of one session"
    everywhere = True

    def __init__(self, a: ToolMatcher, **options: Unpack[Options]) -> None:
        what = select(a)
        super().__init__([what.label], options)
        self.a = a
        self.roles = (Role(selector=what, strict=False),)
        seen = self.cell("tally" if self.within is None else "marks", what, strict=False)
        self._move = Move(cell=seen, strict=False)
        self._need = Guard(kind="need", cell=seen, needs=what.label)
        self.goal = self._need if self.key is None and self.within is None else None

    def rule(self, hits: tuple[bool, ...]) -> Rule:
        return Rule(moves=(self._move,)) if hits[0] else Rule(guards=(self._need,))


# The names that contracts are written with.
must_precede = MustPrecede
cannot_follow_without = CannotFollowWithout
alternate_precedence = AlternatePrecedence
chain_precedence = ChainPrecedence
init = Init
