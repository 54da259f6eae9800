"""
The templates again, written to be obviously right: each is a sentence over the whole trace.

Nothing is remembered from one call to the next. To judge a call, its template looks at every call
there was. That is slow, and it is what the engine is compared with.
"""

from __future__ import annotations

import fnmatch
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

Ended = Literal["flying", "ok", "failed", "aborted", "unknown"]
Spec = Mapping[str, Any]


@dataclass(slots=True)
class Seen:
    """
    A call that was let through.

    Attributes:
        step: Its position.
        tool: Its tool.
        args: Its arguments.
        at: When it was let through.
        ended: How it ended.
        ended_at: When.
        order: Position of its being let through among everything that happened.
        ended_order: Position of its end.
    """

    step: int
    tool: str
    args: Mapping[str, Any]
    at: float
    ended: Ended = "flying"
    ended_at: float = 0.0
    order: int = 0
    ended_order: int = 0


@dataclass(frozen=True, slots=True)
class Question:
    """What a template is asked: the calls before, the call, and the rule's parameters."""

    before: Sequence[Seen]
    call: Seen
    args: Sequence[Any]
    kwargs: Mapping[str, Any]

    @property
    def within(self) -> float:
        """Length of the window."""
        return float(self.kwargs.get("within") or "inf")

    def parameter(self, position: int, name: str) -> Any:
        """A parameter, given by position or by name."""
        return self.args[position] if position < len(self.args) else self.kwargs[name]

    def is_call(self, matcher: Any) -> bool:
        """Whether the call is one that `matcher` means."""
        return means(matcher, self.call)

    def started(self, matcher: Any) -> list[Seen]:
        """The calls of the window that were let through and not taken back."""
        gone = {"aborted", "failed"} if self.kwargs.get("refund_on_failure") else {"aborted"}
        return [
            seen
            for seen in self.before
            if means(matcher, seen) and seen.ended not in gone and self.call.at - seen.at <= self.within
        ]

    def succeeded(self, matcher: Any) -> list[Seen]:
        """The calls of the window that succeeded."""
        return [
            seen
            for seen in self.before
            if means(matcher, seen) and seen.ended == "ok" and self.call.at - seen.ended_at <= self.within
        ]


def breaks(spec: Spec, before: Sequence[Seen], call: Seen) -> bool:
    """Whether a call breaks a contract, after the calls that were let through before it."""
    question = _project(spec, before, call)
    if question is None:
        return _concerns_strictly(spec, call)
    return _AT_CALL.get(spec["template"], _fine)(question)


def breaks_at_end(spec: Spec, calls: Sequence[Seen], now: float) -> bool:
    """Whether a contract is broken by the session's ending at `now`."""
    judge = _AT_END.get(spec["template"])
    if judge is None:
        return False
    kwargs = spec.get("kwargs", {})
    end = Seen(step=0, tool="", args={}, at=now)
    if kwargs.get("key") is None:
        return judge(Question(calls, end, spec.get("args", []), kwargs))
    # One question for each value that a call of the contract had.
    keys = {key for seen in calls if (key := _key(kwargs["key"], seen)) is not None and _mentions(spec, seen)}
    if spec["template"] != "response":
        keys = {
            key
            for key in keys
            if any(
                seen.ended != "aborted" and _key(kwargs["key"], seen) == key and _mentions(spec, seen)
                for seen in calls
            )
        }
    return any(
        judge(
            Question(
                [seen for seen in calls if _key(kwargs["key"], seen) == key],
                end,
                spec.get("args", []),
                kwargs,
            )
        )
        for key in keys
    )


def means(matcher: Any, seen: Seen) -> bool:
    """Whether a matcher, written as in a rules file, means a call."""
    if isinstance(matcher, Mapping) and "any_of" in matcher:
        return any(means(one, seen) for one in matcher["any_of"])
    if isinstance(matcher, Mapping) and "not" in matcher:
        inner = matcher["not"]
        return means(inner["tool"], seen) and not means(inner, seen)
    if isinstance(matcher, Mapping):
        value = seen.args.get(matcher.get("field", "command"))
        return (
            seen.tool == matcher["tool"]
            and value is not None
            and re.search(matcher["matches"], str(value), re.IGNORECASE) is not None
        )
    return fnmatch.fnmatchcase(seen.tool, matcher)


def _fine(question: Question) -> bool:
    return False


def _must_precede(q: Question) -> bool:
    first, then = q.args[:2]
    return q.is_call(then) and not q.is_call(first) and not q.succeeded(first)


def _cannot_follow_without(q: Question) -> bool:
    then, first = q.args[:2]
    return q.is_call(then) and not q.is_call(first) and not q.succeeded(first)


def _at_most_n_times(q: Question) -> bool:
    return q.is_call(q.args[0]) and len(q.started(q.args[0])) + 1 > q.parameter(1, "n")


def _rate_limit(q: Question) -> bool:
    window = q.parameter(2, "window_seconds")
    recent = [seen for seen in q.started(q.args[0]) if q.call.at - seen.at <= window]
    return q.is_call(q.args[0]) and len(recent) + 1 > q.parameter(1, "n")


def _at_most_total(q: Question) -> bool:
    if not q.is_call(q.args[0]):
        return False
    field = q.parameter(1, "field")
    amount = _amount(q.call.args.get(field))
    if amount is None:
        return True
    spent = sum((_amount(seen.args.get(field)) or Fraction(0) for seen in q.started(q.args[0])), Fraction(0))
    return spent + amount > Fraction(str(q.parameter(2, "limit")))


def _never_after(q: Question) -> bool:
    banned, marker = q.args[:2]
    return q.is_call(banned) and (q.is_call(marker) or bool(q.started(marker)))


def _mutually_exclusive(q: Question) -> bool:
    left, right = q.args[:2]
    # A call that is both counts as the left one.
    if q.is_call(left):
        return any(not means(left, seen) for seen in q.started(right))
    return q.is_call(right) and bool(q.started(left))


def _never(q: Question) -> bool:
    return q.is_call(q.args[0])


def _only(q: Question) -> bool:
    return not q.is_call(q.args[0])


def _init(q: Question) -> bool:
    return not q.is_call(q.args[0]) and not q.succeeded(q.args[0])


def _alternate_precedence(q: Question) -> bool:
    first, then = q.args[:2]
    if not q.is_call(then):
        return False
    gone = {"aborted", "failed"} if q.kwargs.get("refund_on_failure") else {"aborted"}
    given = sorted(
        (seen for seen in q.before if means(first, seen) and seen.ended == "ok"),
        key=lambda seen: seen.ended_order,
    )
    users = sorted(
        (seen for seen in q.before if means(then, seen) and seen.ended not in gone),
        key=lambda seen: seen.order,
    )
    if not q.kwargs.get("saving", True):
        latest = max((user.order for user in users), default=0)
        return not any(seen.ended_order > latest and q.call.at - seen.ended_at <= q.within for seen in given)
    for user in [*users, q.call]:
        fit = [
            seen for seen in given if seen.ended_order < user.order and user.at - seen.ended_at <= q.within
        ]
        if fit:
            given.remove(fit[0])
        elif user is q.call:
            return True
    return False


def _chain_precedence(q: Question) -> bool:
    first, then = q.args[:2]
    if not q.is_call(then):
        return False
    there = [seen for seen in q.before if seen.ended != "aborted"]
    if not there:
        return True
    last = max(there, key=lambda seen: seen.step)
    fresh = q.call.at - last.ended_at <= q.within
    return not (means(first, last) and last.ended == "ok" and fresh)


def _max_distinct(q: Question) -> bool:
    if not q.is_call(q.args[0]):
        return False
    field = q.parameter(1, "field")
    values = _values(q.call.args.get(field))
    if values is None:
        return True
    known = {value for seen in q.started(q.args[0]) for value in _values(seen.args.get(field)) or ()}
    return bool(len(known | values) > q.parameter(2, "n"))


def _required_at_end(q: Question) -> bool:
    return not q.succeeded(q.args[0])


def _existence_at_end(q: Question) -> bool:
    return bool(len(q.succeeded(q.args[0])) < q.parameter(1, "n"))


def _response_at_end(q: Question) -> bool:
    first, then = q.args[:2]
    return any(
        not any(
            means(then, answer)
            and answer.ended == "ok"
            and answer.step > seen.step
            and answer.ended_at - seen.at <= q.within
            for answer in q.before
        )
        for seen in q.before
        if means(first, seen) and seen.ended != "aborted"
    )


_AT_CALL: dict[str, Callable[[Question], bool]] = {
    "must_precede": _must_precede,
    "cannot_follow_without": _cannot_follow_without,
    "at_most_n_times": _at_most_n_times,
    "rate_limit": _rate_limit,
    "at_most_total": _at_most_total,
    "never_after": _never_after,
    "mutually_exclusive": _mutually_exclusive,
    "never": _never,
    "only": _only,
    "init": _init,
    "alternate_precedence": _alternate_precedence,
    "chain_precedence": _chain_precedence,
    "max_distinct": _max_distinct,
}

_AT_END: dict[str, Callable[[Question], bool]] = {
    "required_before_session_end": _required_at_end,
    "existence": _existence_at_end,
    "response": _response_at_end,
}

# Which calls a contract with a key must not be evaded by, if their key cannot be read.
_STRICT: dict[str, Callable[[Spec, Seen], bool]] = {
    "must_precede": lambda s, c: means(s["args"][1], c) and not means(s["args"][0], c),
    "cannot_follow_without": lambda s, c: means(s["args"][0], c) and not means(s["args"][1], c),
    "never_after": lambda s, c: means(s["args"][0], c) or means(s["args"][1], c),
    "mutually_exclusive": lambda s, c: means(s["args"][0], c) or means(s["args"][1], c),
    "response": lambda s, c: means(s["args"][0], c),
    "alternate_precedence": lambda s, c: means(s["args"][1], c),
    "chain_precedence": lambda s, c: means(s["args"][1], c),
    "init": lambda s, c: not means(s["args"][0], c),
    "required_before_session_end": lambda s, c: False,
    "existence": lambda s, c: False,
}


def _concerns_strictly(spec: Spec, call: Seen) -> bool:
    strict = _STRICT.get(spec["template"])
    return means(spec["args"][0], call) if strict is None else strict(spec, call)


def _mentions(spec: Spec, seen: Seen) -> bool:
    tools = 2 if spec["template"] == "response" else 1
    return any(means(matcher, seen) for matcher in spec["args"][:tools])


def _project(spec: Spec, before: Sequence[Seen], call: Seen) -> Question | None:
    """The question among the calls with the same key; None if the call's key cannot be read."""
    args, kwargs = spec.get("args", []), spec.get("kwargs", {})
    path = kwargs.get("key")
    if path is None:
        return Question(before, call, args, kwargs)
    key = _key(path, call)
    if key is None:
        return None
    return Question([seen for seen in before if _key(path, seen) == key], call, args, kwargs)


def _key(path: str, seen: Seen) -> str | None:
    value: Any = seen.args
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, float) and value == int(value):
        value = int(value)
    # As a person reads it, who sees no joiners and does not count blanks around it.
    seen_text = "".join(letter for letter in str(value) if unicodedata.category(letter) != "Cf")
    return unicodedata.normalize("NFC", seen_text).strip()


def _amount(value: Any) -> Fraction | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        # The number that was written: 0.1 is one tenth.
        amount = Fraction(repr(value))
    except ValueError:
        return None
    return amount if amount >= 0 else None


def _values(value: Any) -> set[str] | None:
    items = value if isinstance(value, list) else [value]
    if any(item is None or isinstance(item, bool) for item in items):
        return None
    return {str(item) for item in items}
