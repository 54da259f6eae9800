"""The keyword options that every template takes."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypedDict

    from ..._plain.calendar import Per
    from ..._plain.spelling import Fold
    from ..condition.fact import Fact
    from ..match.keys import KeyGiven
    from ..match.matchers import ToolMatcher
    from ..verdict import Mode, OnViolation, Severity
    from .reach import Scope
else:

    class TypedDict:
        """Give the names of the options. A real one compiles each type, in a tenth of Python's own start."""

        def __init_subclass__(cls, *, total):
            """Take what the class says for those who check types."""


class Options(TypedDict, total=False):
    """
    Keyword options that every template takes.

    Attributes:
        key: An argument; the contract then holds for each of its values separately. Several together as a
            list, another for each tool as a mapping, ``"*"`` for all arguments.
        fold: Which spellings of a key are one: "case" or "number". By default, those that look the same.
        except_: Calls that are none of its business: a matcher, or several. They are ``except`` in data.
        recheck: Whether a call that has waited, for a person or for long, is judged again before it runs. By
            default that is so where time or order matters: with `within`, `per`, `since`, a window, and a
            check of more than arguments.
        when: A condition. Calls for which it is false are neither limited nor counted; a prerequisite counts
            in any case. One that cannot be evaluated is taken for true.
        facts: The facts that its conditions may read. In a rules file they stand beside the contracts.
        within: Seconds. An older prerequisite no longer counts, and totals are per window.
        id: A name of its own, for reports.
        description: What it is for.
        severity: How bad a violation is; "medium" if not given.
        mode: "shadow" only watches; "enforce" is the default.
        remedy: Advice for whoever is refused.
        on_violation: "halt" stops the whole session; "refuse", the default, only the call.
        scope: Whose calls it counts together: of one "run", one "session", or, with a shared store, of the
            "fleet". By default, those of the session, see the option `contract_scope` of a governance.
        per: "hour", "day", "week" or "month": it counts anew with each, by the calendar.
        tz: The time zone of `per`; "UTC" if not given.
        forever: Whether it is meant that a contract of the fleet never counts anew.
        overshoot: Whether amounts that are known only afterwards may pass a limit of the fleet meanwhile.
        name: Names what a contract of the fleet counts, where only code says which calls those are.
    """

    key: KeyGiven | None
    fold: Fold | None
    except_: ToolMatcher | Sequence[ToolMatcher] | None
    recheck: bool | None
    when: str | None
    facts: Sequence[Fact] | None
    within: float | None
    id: str | None
    description: str | None
    severity: Severity
    mode: Mode
    remedy: str | None
    on_violation: OnViolation
    scope: Scope | None
    per: Per | None
    tz: str | None
    forever: bool
    overshoot: bool
    name: str | None
