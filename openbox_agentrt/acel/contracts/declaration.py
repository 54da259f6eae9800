"""
Contracts that are written by naming tools, as the engine reads them.

A declaration says which selectors it has, and for each combination of them that a call can match, the
rule that follows. That is all it holds; remembering and comparing is the engine's business.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, get_args

from ..._plain.spelling import Fold
from ..._values import dataclass
from ..match.keys import key_of
from ..match.matchers import ToolMatcher, any_of
from ..match.paths import FieldError
from ..match.selector import ById, Selector, select
from ..verdict import Mode, OnViolation, Severity, Verdict
from ..wording import shown
from .base import TemporalContract
from .checks import check_seconds, flag, one_of
from .options import Options
from .reach import Scope, check_window, read_reach
from .rules import NOTHING, Cell, CellKind, Guard, Rule, Watch

if TYPE_CHECKING:
    from ..condition.condition import Condition
    from ..condition.fact import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """
    One parameter that stands for calls.

    Attributes:
        selector: Which calls.
        strict: Whether a call that may be meant is taken to be: the side on which the contract is stricter. A
            limit counts it; a prerequisite does not, and neither does an exception.
    """

    selector: Selector
    strict: bool


class Home(Protocol):
    """The memory of a session, which knows how each of its contracts stands."""

    def verdict_of(self, contract: TemporalContract) -> Verdict:
        """Give the verdict of a contract."""


class Declaration(TemporalContract):
    """
    A contract that is written by naming tools.

    Attributes:
        names: The tools that it can be about; None if only asking tells.
    """

    # NB: no `cached_property` and no `vars`: an object whose `__dict__` was asked for is three times as big.

    template: ClassVar[str]
    # Whether calls that none of the roles match are its business too.
    everywhere: ClassVar[bool] = False
    # Whether it tells values of an argument apart, as keys are.
    tells_values_apart: ClassVar[bool] = False
    # How many of its roles an exception takes calls from; all by default.
    excepts_roles: ClassVar[int | None] = None
    # How many of its roles the key of a call tells apart; all by default.
    keyed_roles: ClassVar[int | None] = None
    # How many of the roles that limit `when` takes calls from; all by default.
    when_roles: ClassVar[int | None] = None
    # Whether `when` is asked once, when the session ends, and not of each call.
    asked_at_end: ClassVar[bool] = False
    # Options that mean nothing to it.
    without: ClassVar[frozenset[str]] = frozenset()
    # Whether it has to know when state entries were written.
    keeps_times: bool = False
    # Why its memory cannot stand in a shared store, nor count by the calendar; None if it can.
    local_because: ClassVar[str | None] = "what it remembers is about one session"
    # Whether it has a window of its own beside the option `within`.
    windowed: ClassVar[bool] = False

    # Once this holds, nothing can break the contract any more.
    goal: Guard | None = None
    # What has to hold when the session ends.
    at_end: tuple[Guard, ...] = ()

    def __init__(self, parts: list[str], options: Options, check: Condition | None = None) -> None:
        for name in sorted(self.without):
            if options.get(name) is not None:
                raise TypeError(f"{self.template} has no option {name!r}")
        self.key = options.get("key")
        self.fold: Fold | None = one_of(options, "fold", get_args(Fold))
        self.within: float | None = None
        self.split = None if self.key is None else key_of(self.key, self.fold)
        if self.split is not None:
            parts = [*parts, f"key={self.split.written}"]
        if self.fold is not None:
            if self.key is None and not self.tells_values_apart:
                raise ValueError("fold needs a key")
            parts = [*parts, f"fold={self.fold}"]
        self.excepted = _excepted(options.get("except_"))
        if self.excepted is not None:
            parts = [*parts, f"except={self.excepted.label}"]
        self.when = _condition(options)
        if self.when is not None:
            if self.asked_at_end and self.when.reads.args != set():
                raise ValueError(f"when is asked at the end for {self.template}, so it cannot read args")
            parts = [*parts, f"when={self.when.text}"]
        within = options.get("within")
        if within is not None:
            self.within = check_seconds("within", within)
            parts = [*parts, f"within={_seconds(self.within)}"]
        self.reach = read_reach(
            self.template,
            options,
            local_because=self.local_because,
            windowed=self.windowed or self.within is not None,
        )
        if self.reach.is_fleet and self.when is not None:
            raise ValueError("scope 'fleet' has no when: what conditions read is about one session")
        parts = [*parts, *self.reach.parts()]
        self.rechecks = flag(options, "recheck")
        changes = self.ends or self.windowed or (check is not None and check.reads.changing)
        self.recheck = changes if self.rechecks is None else self.rechecks
        parts += [] if self.rechecks is None else [f"recheck={self.rechecks}"]
        super().__init__(f"{self.template}({', '.join(parts)})")
        self.id = _text(options, "id")
        self.description = _text(options, "description")
        self.remedy = _text(options, "remedy")
        self.severity = one_of(options, "severity", get_args(Severity), "medium")
        self.mode = one_of(options, "mode", get_args(Mode), "enforce")
        self.on_violation = one_of(options, "on_violation", get_args(OnViolation), "refuse")
        unknown = options.keys() - Options.__annotations__.keys()
        if unknown:
            raise TypeError(f"{self.template} has no option {min(unknown)!r}")
        self.conditions = tuple(condition for condition in (self.when, check) if condition is not None)
        self._home: Callable[[], Home | None] | None = None
        self._roles: tuple[Role, ...] = ()
        self.names = _names((), self)

    @property
    def roles(self) -> tuple[Role, ...]:
        """The parameters that stand for calls, which a subclass sets once, and last the excepted calls."""
        if self.excepted is None:
            return self._roles
        # Of a call that cannot be told to be excepted, nobody knows that it is.
        return (*self._roles, Role(selector=self.excepted, strict=False))

    @roles.setter
    def roles(self, roles: tuple[Role, ...]) -> None:
        self._roles = roles
        self.names = _names(roles, self)
        if self.excepted is not None:
            for role in roles[: self.excepts_roles]:
                _check_left(role.selector, self.excepted)
        if self.split is not None:
            self.split.check(_names(roles[: self.keyed_roles], self), _names(roles, self))

    def rule(self, hits: tuple[bool, ...]) -> Rule:
        """The rule for a call that matches the roles for which `hits` is true. By itself, nothing."""
        return NOTHING

    def rule_for(self, hits: tuple[bool, ...]) -> Rule:
        """Give the rule for a call that matches the `roles` for which `hits` is true."""
        if self.excepted is None:
            return self.rule(hits)
        return NOTHING if hits[-1] else self.rule(hits[:-1])

    def combinations(self) -> list[tuple[bool, ...]]:
        """List ways to match the roles that, taken together, show every guard and every move."""
        return list(itertools.product((False, True), repeat=len(self.roles)))

    def unasked_rule_for(self, hits: tuple[bool, ...]) -> Rule:
        """Give the rule for a call for which `when` is false: it allows what it allows, and nothing else."""
        limited = [place for place, role in enumerate(self._roles) if role.strict][: self.when_roles]
        rule = self.rule_for(tuple(hit and place not in limited for place, hit in enumerate(hits)))
        return Rule(moves=rule.moves) if rule.moves else NOTHING

    @property
    def is_asked_when(self) -> bool:
        """Tell whether a condition says of each call if the contract is asked."""
        return self.when is not None and not self.asked_at_end

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The facts that its conditions read, by their names."""
        known = {fact.name: fact for condition in self.conditions for fact in condition.facts}
        return tuple(known[name] for name in sorted(known))

    @property
    def watches(self) -> tuple[Watch, ...]:
        """The cells that its conditions read, and the tools whose calls change them."""
        if not self.conditions:
            return ()
        from .watched import watches_of

        return watches_of(self.conditions)

    def names_event(self, event: str) -> bool:
        """Tell whether a parameter names an event, and not only a pattern that its name happens to fit."""
        return any(event in (role.selector.names or ()) for role in self._roles)

    def cell(
        self, kind: CellKind, *of: Selector, strict: bool = True, clock: Hashable = None, **more: Any
    ) -> Cell:
        """
        Name a cell about the calls of some selectors, split and limited as this contract is.

        With `strict`, of calls that may be meant; without, of those only that must be. The two are one cell
        where that makes no difference.
        """
        more.setdefault("within", self.within)
        identity: tuple[Hashable, ...] = tuple(selector.identity for selector in of)
        label = ", ".join(selector.text() for selector in of)
        must = not strict and any(selector.asks for selector in of)
        if must:
            identity += ("must",)
            label = f"{label}; must"
        if self.excepted is not None:
            # It counts other calls than the cell of a contract without the exception.
            identity += (("except", self.excepted.identity),)
            label = f"{label}; except={self.excepted.text()}"
        if self.reach.is_fleet:
            from ...fleet.plan import CellKind as FleetKind

            if kind not in get_args(FleetKind):
                raise ValueError(f"{self.template} with these options is about one session, not a fleet")
            check_window(more["within"])
        more["forms"] = self._forms(of, must)
        if self.is_asked_when and self.when is not None:
            identity += (("when", self.when),)
            label = f"{label}; when={self.when.form}"
        return Cell(
            kind=kind,
            of=identity,
            label=label,
            key=self.split,
            per=self.reach.per,
            tz=self.reach.tz,
            clock=None if clock is None else ById(clock),
            **more,
        )

    @property
    def ends(self) -> bool:
        """Tell whether what it counted is forgotten some time, so that nothing holds for good."""
        return self.within is not None or self.reach.per is not None

    def _forms(self, of: Sequence[Selector], must: bool) -> tuple[Any, ...]:
        """Say which calls a cell is about, the same in every process, as far as that can be said."""
        selectors = of if self.excepted is None else [*of, self.excepted]
        forms = [self._form(selector) for selector in selectors]
        if self.excepted is not None:
            forms[-1] = ["except", forms[-1]]
        return (*forms, ["must"]) if must else tuple(forms)

    def _form(self, selector: Selector) -> list[Any]:
        form = selector.form()
        if not (self.reach.is_fleet and _is_code(form)):
            return form
        if self.reach.name is None:
            raise ValueError(
                f"{selector.label} is code, which no other process knows: give the contract a name="
            )
        # By its place in the contract, not in the cell: two parameters with code are never one cell.
        places = [role.selector.identity for role in self.roles]
        return ["named", self.reach.name, places.index(selector.identity)]

    @property
    def named_code(self) -> dict[tuple[str, int], Selector]:
        """The parameters that are code, by what other processes know them by: `name` and their place."""
        if not self.reach.is_fleet:
            return {}
        return {
            (self.reach.name or "", place): role.selector
            for place, role in enumerate(self.roles)
            if _is_code(role.selector.form())
        }

    def key_of(self, tool: str, args: Mapping[str, Any]) -> str | None:
        """Read the key that splits the contract; None if nothing does, or if it cannot be read."""
        try:
            return None if self.split is None else self.split.read(tool, args)
        except FieldError:
            return None

    @property
    def verdict(self) -> Verdict:
        """The verdict in the session that it was last added to, or on its own."""
        home = None if self._home is None else self._home()
        return self._verdict if home is None else home.verdict_of(self)

    def settle_in(self, home: Callable[[], Home | None]) -> None:
        """Let `verdict` tell how it stands in a session's memory from now on."""
        self._home = home

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_home": None}


def scope_of(contract: TemporalContract) -> Scope | None:
    """Give the scope that a contract names; None for the default."""
    return contract.reach.scope if isinstance(contract, Declaration) else None


def _is_code(form: Sequence[Any]) -> bool:
    return form[0] == "function" or (form[0] == "any_of" and any(map(_is_code, form[1:])))


def _condition(options: Options) -> Condition | None:
    when = options.get("when")
    if when is None:
        return None
    # Loaded here, as all that only contracts with a condition need.
    from ..condition.condition import Condition

    return Condition(when, options.get("facts") or ())


def _excepted(given: ToolMatcher | Sequence[ToolMatcher] | None) -> Selector | None:
    if given is None or isinstance(given, str) or callable(given):
        return None if given is None else select(given)
    if not isinstance(given, Sequence):
        raise TypeError(f"except must be a matcher or a list of matchers, got {shown(given)}")
    return select(given[0] if len(given) == 1 else any_of(*given))


def _names(roles: Sequence[Role], contract: Declaration) -> frozenset[str] | None:
    names = [role.selector.names for role in roles]
    if contract.everywhere or None in names:
        return None
    if len(names) == 1:
        return names[0]
    return frozenset().union(*(some for some in names if some is not None))


def _check_left(selector: Selector, excepted: Selector) -> None:
    if selector.names and all(excepted.on(name) is True for name in selector.names):
        raise ValueError(f"except takes away every call of {selector.label}")


def _seconds(value: float) -> str:
    return str(int(value)) if value.is_integer() and value < 2**53 else repr(value)


def _text(options: Options, name: str) -> str | None:
    value = options.get(name)
    if value is not None and (not isinstance(value, str) or not value):
        raise TypeError(f"{name} must be text, got {shown(value)}")
    return value
