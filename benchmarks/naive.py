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
from dataclasses import dataclass, replace
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
        ran: The arguments that really ran, if they are not those that were judged.
        again: When it was judged again, and let through.
    """

    step: int
    tool: str
    args: Mapping[str, Any]
    at: float
    ended: Ended = "flying"
    ended_at: float = 0.0
    order: int = 0
    ended_order: int = 0
    ran: Mapping[str, Any] | None = None
    again: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Moment:
    """
    What a condition is asked about: arguments, and the calls that had succeeded by then, as they ran.

    Attributes:
        args: The arguments.
        done: The calls, in the order of their ends.
    """

    args: Mapping[str, Any]
    done: Sequence[Seen]

    @property
    def key(self) -> str | None:
        """The value of the argument k, as keys are spelt."""
        return _key("k", Seen(step=0, tool="", args=self.args, at=0.0))

    @property
    def told(self) -> dict[str, Mapping[str, Any]]:
        """What the calls told, by key: the latest of each."""
        known: dict[str, Mapping[str, Any]] = {}
        for seen in self.done:
            key = _key("k", seen)
            if seen.tool in FACTS[0]["tool"] and key is not None:
                n = seen.args.get("n")
                known[key] = {} if n != n else {"n": n}
        return known

    def count(self, tool: str) -> int:
        """How many calls of a tool there were."""
        return sum(seen.tool == tool for seen in self.done)

    def compare(self, value: Any, holds: Callable[[Any], bool]) -> bool | None:
        """Ask about a number; None if it is none."""
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            return None
        return holds(value)


CONDITIONS: dict[str, Callable[[Moment], bool | None]] = {
    "args.n > 1": lambda moment: moment.compare(moment.args.get("n"), lambda n: n > 1),
    "args.n <= 5": lambda moment: moment.compare(moment.args.get("n"), lambda n: n <= 5),
    "session.a < 2": lambda moment: moment.count("a") < 2,
    "session.b < 2": lambda moment: moment.count("b") < 2,
    "session.b > 1": lambda moment: moment.count("b") > 1,
    "args.k in facts.told": lambda moment: None if moment.key is None else moment.key in moment.told,
    "facts.told[args.k].n > 1": lambda moment: moment.compare(
        moment.told.get(moment.key or "", {}).get("n"), lambda n: n > 1
    ),
}
"""Conditions, and what they say; None for one that cannot be evaluated."""

FACTS = [{"tool": ["a", "db_read"], "as": "told", "key": "k", "values": {"n": "args.n"}}]
"""The facts that they read."""


@dataclass(frozen=True, slots=True)
class Question:
    """
    What a template is asked: the calls before, the call, and the rule's parameters.

    Attributes:
        before: The calls before.
        call: The call.
        args: The rule's parameters by position.
        kwargs: And by name.
        key: The value of the key that is asked about; None without one.
        asked: Whether the contract is asked about a call that came before.
    """

    before: Sequence[Seen]
    call: Seen
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    key: str | None = None
    asked: Callable[[Seen], bool] = lambda seen: True

    @property
    def fold(self) -> str | None:
        """Which spellings of a key are one."""
        return self.kwargs.get("fold")

    @property
    def within(self) -> float:
        """Length of the window."""
        return float(self.kwargs.get("within") or "inf")

    def parameter(self, position: int, name: str) -> Any:
        """A parameter, given by position or by name."""
        return self.args[position] if position < len(self.args) else self.kwargs[name]

    def is_call(self, matcher: Any) -> bool:
        """Whether the call may be one that `matcher` means."""
        return means(matcher, self.call)

    def must_be(self, matcher: Any) -> bool:
        """Whether the call is one that `matcher` means however it is read."""
        return means(matcher, self.call, must=True)

    def calls(self, matcher: Any, *, must: bool = False) -> list[Seen]:
        """The calls before that `matcher` may mean, or must mean, as what they count for it."""
        counted = (self._counted(matcher, seen, must) for seen in self.before)
        return [seen for seen in counted if seen is not None]

    def started(self, matcher: Any) -> list[Seen]:
        """The calls of the window that were let through and not taken back."""
        gone = {"aborted", "failed"} if self.kwargs.get("refund_on_failure") else {"aborted"}
        return [
            seen
            for seen in self.calls(matcher)
            if seen.ended not in gone and self.call.at - seen.at <= self.within
        ]

    def succeeded(self, matcher: Any) -> list[Seen]:
        """The calls of the window that succeeded."""
        return [
            seen
            for seen in self.calls(matcher, must=True)
            if seen.ended == "ok" and self.call.at - seen.ended_at <= self.within
        ]

    def was_meant(self, seen: Seen) -> bool:
        """Whether a call before was let through as one that the rule's first matcher means."""
        return self._is_meant(self.args[0], seen, must=False)

    def _counted(self, matcher: Any, seen: Seen, must: bool) -> Seen | None:
        judged = self._is_meant(matcher, seen, must)
        if seen.ran is None or seen.ended not in ("ok", "failed", "unknown"):
            return seen if judged else None
        ran = replace(seen, args=seen.ran)
        if self._is_meant(matcher, ran, must):
            # What only the call that ran is counts from its end.
            return ran if judged else replace(ran, at=seen.ended_at, order=seen.ended_order)
        # What only the judged call was limits, and allows nothing.
        only: Ended = "failed" if seen.ended == "failed" else "unknown"
        return replace(seen, ended=only, ran=None) if judged else None

    def _is_meant(self, matcher: Any, seen: Seen, must: bool) -> bool:
        path = self.kwargs.get("key")
        if not (
            means(matcher, seen, must=must) and (path is None or _key(path, seen, self.fold) == self.key)
        ):
            return False
        # A prerequisite counts in any case.
        return must or self.asked(seen)


def breaks(spec: Spec, before: Sequence[Seen], call: Seen) -> bool:
    """Whether a call breaks a contract, after the calls that were let through before it."""
    asked = _asked(spec, before)
    if not asked(call):
        return False
    marks = spec["template"] == "never_after"
    if not marks:
        # What is excepted is none of its business.
        before = [seen for seen in before if not _excepted(spec, seen)]
    question = _project(spec, before, call, asked)
    if _excepted(spec, call):
        # But it may be what nothing may come after, and is then not passed over for want of its key.
        return marks and question is None and means(spec["args"][1], call)
    if question is None:
        return _concerns_strictly(spec, call)
    return _AT_CALL.get(spec["template"], _fine)(question)


def _done(calls: Sequence[Seen], by: float = float("inf")) -> list[Seen]:
    """The calls that had succeeded by then, as they ran."""
    ended = sorted((seen for seen in calls if seen.ended == "ok"), key=lambda seen: seen.ended_order)
    return [
        seen if seen.ran is None else replace(seen, args=seen.ran) for seen in ended if seen.ended_order < by
    ]


def _asked(spec: Spec, calls: Sequence[Seen]) -> Callable[[Seen], bool]:
    """Whether a contract is asked about a call: unless its condition is false when it comes, or as it ran."""
    when = spec.get("kwargs", {}).get("when")

    def asked(seen: Seen) -> bool:
        if when is None or spec["template"] in ("existence", "required_before_session_end"):
            return True
        original = next((one for one in calls if one.step == seen.step), seen)
        at = [original.ended_order] if seen.args is original.ran else [original.order, *original.again]
        return any(CONDITIONS[when](Moment(seen.args, _done(calls, by))) is not False for by in at)

    return asked


def _excepted(spec: Spec, seen: Seen) -> bool:
    return any(means(matcher, seen, must=True) for matcher in spec.get("kwargs", {}).get("except", ()))


def breaks_at_end(spec: Spec, calls: Sequence[Seen], now: float) -> bool:
    """Whether a contract is broken by the session's ending at `now`."""
    kwargs = spec.get("kwargs", {})
    asked = _asked(spec, calls)
    when = kwargs.get("when")
    at_end = spec["template"] in ("existence", "required_before_session_end")
    if at_end and when and CONDITIONS[when](Moment({}, _done(calls))) is False:
        return False
    calls = [seen for seen in calls if not _excepted(spec, seen)]
    judge = _AT_END.get(spec["template"])
    if judge is None:
        return False
    end = Seen(step=0, tool="", args={}, at=now)
    if kwargs.get("key") is None:
        return judge(Question(calls, end, spec.get("args", []), kwargs, asked=asked))
    # One question for each value that a call of the contract had.
    both = [*calls, *(replace(seen, args=seen.ran) for seen in calls if seen.ran is not None)]
    keys = {key for seen in both if (key := _key(kwargs["key"], seen, kwargs.get("fold"))) is not None}
    questions = [Question(calls, end, spec.get("args", []), kwargs, key, asked) for key in keys]
    must = spec["template"] != "response"
    return any(
        judge(q) for q in questions if any(seen.ended != "aborted" for seen in q.calls(q.args[0], must=must))
    )


def means(matcher: Any, seen: Seen, *, must: bool = False) -> bool:
    """Whether a matcher, written as in a rules file, may mean a call, or must."""
    if isinstance(matcher, Mapping) and "any_of" in matcher:
        return any(means(one, seen, must=must) for one in matcher["any_of"])
    if isinstance(matcher, Mapping) and "not" in matcher:
        inner = matcher["not"]
        there = seen.args.get(inner.get("field", "command")) is not None
        other = means(inner["tool"], seen) and not means(inner, seen, must=not must)
        return other and (there or not must)
    if isinstance(matcher, Mapping):
        return seen.tool == matcher["tool"] and _has(matcher, seen, must)
    return fnmatch.fnmatchcase(seen.tool, matcher)


def _has(matcher: Mapping[str, Any], seen: Seen, must: bool) -> bool:
    value = seen.args.get(matcher.get("field", "command"))
    texts = value if isinstance(value, list) else [] if value is None else [str(value)]
    found = [re.search(matcher["matches"], text, re.IGNORECASE) is not None for text in texts]
    return bool(found) and all(found) if must else any(found)


def _fine(question: Question) -> bool:
    return False


def _must_precede(q: Question) -> bool:
    first, then = q.args[:2]
    return q.is_call(then) and first != then and not _counting(q, first)


def _cannot_follow_without(q: Question) -> bool:
    then, first = q.args[:2]
    return q.is_call(then) and first != then and not _counting(q, first)


def _counting(q: Question, first: Any) -> list[Seen]:
    """The prerequisites that succeeded, and began after everything that voids those before."""
    since = q.kwargs.get("since")
    given = q.succeeded(first)
    if since is None:
        return given
    began = {seen.step: seen.order for seen in q.before}
    voids = [order for seen in q.before for order in _voiding(q, since, seen)]
    return [seen for seen in given if not any(order > began[seen.step] for order in voids)]


def _voiding(q: Question, since: Any, seen: Seen) -> list[int]:
    """When a call voided what came before it: when it was let through, or when it ended as another."""
    path = q.kwargs.get("key")

    def is_one(call: Seen) -> bool:
        return means(since, call) and (path is None or _key(path, call, q.fold) in (None, q.key))

    if seen.ended == "aborted":
        return []
    if is_one(seen):
        return [seen.order]
    ran = None if seen.ran is None or seen.ended == "flying" else replace(seen, args=seen.ran)
    return [seen.ended_order] if ran is not None and is_one(ran) else []


def _at_most_in_flight(q: Question) -> bool:
    # Nobody knows of a lost call that it has ended.
    open_calls = [seen for seen in q.before if seen.ended in ("flying", "unknown")]
    counted = replace(q, before=open_calls).calls(q.args[0])
    recent = [seen for seen in counted if q.call.at - seen.at <= q.within]
    return q.is_call(q.args[0]) and len(recent) + 1 > q.parameter(1, "n")


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
    spent = sum((_spent(q, field, seen) for seen in q.started(q.args[0])), Fraction(0))
    return spent + amount > Fraction(str(q.parameter(2, "limit")))


def _never_after(q: Question) -> bool:
    banned, marker = q.args[:2]
    return q.is_call(banned) and (q.is_call(marker) or bool(q.started(marker)))


def _mutually_exclusive(q: Question) -> bool:
    left, right = q.args[:2]
    if left == right:
        return False
    if q.is_call(left):
        return q.is_call(right) or bool(q.started(right))
    return q.is_call(right) and bool(q.started(left))


def _requires(q: Question) -> bool:
    check = CONDITIONS[q.parameter(1, "check")]
    return q.is_call(q.args[0]) and check(Moment(q.call.args, _done(q.before))) is not True


def _never(q: Question) -> bool:
    return q.is_call(q.args[0])


def _only(q: Question) -> bool:
    return not q.must_be(q.args[0])


def _init(q: Question) -> bool:
    return not q.must_be(q.args[0]) and not q.succeeded(q.args[0])


def _alternate_precedence(q: Question) -> bool:
    first, then = q.args[:2]
    if not q.is_call(then):
        return False
    gone = {"aborted", "failed"} if q.kwargs.get("refund_on_failure") else {"aborted"}
    given = sorted(
        (seen for seen in q.calls(first, must=True) if seen.ended == "ok"),
        key=lambda seen: seen.ended_order,
    )
    users = sorted(
        (seen for seen in q.calls(then) if seen.ended not in gone),
        key=lambda seen: seen.order,
    )
    if not q.kwargs.get("saving", True):
        latest = max((user.order for user in users), default=0)
        return not any(seen.ended_order >= latest and q.call.at - seen.ended_at <= q.within for seen in given)
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
    there = [seen for seen in q.calls("*", must=True) if seen.ended != "aborted"]
    if not there:
        return True
    last = max(there, key=lambda seen: seen.step)
    fresh = q.call.at - last.ended_at <= q.within
    return not (means(first, last, must=True) and last.ended == "ok" and fresh)


def _max_distinct(q: Question) -> bool:
    if not q.is_call(q.args[0]):
        return False
    field = q.parameter(1, "field")
    values = _values(q.call.args.get(field), q.fold)
    if values is None:
        return True
    known = {value for seen in q.started(q.args[0]) for value in _used(q, field, seen)}
    return bool(len(known | values) > q.parameter(2, "n"))


def _came_from(q: Question) -> bool:
    if not q.is_call(q.args[0]):
        return False
    value = q.call.args.get(q.parameter(1, "field"))
    if value is None and q.kwargs.get("optional"):
        return False
    values = value if isinstance(value, list) else [value]
    return not all(_is_vouched_for(q, value) for value in values)


def _is_vouched_for(q: Question, value: Any) -> bool:
    if not _is_name(value) or not _spelt(value):
        return False
    for source in q.parameter(2, "sources"):
        if _spelt(value) in map(_spelt, source.get("values", ())):
            return True
        # What a call returns is what it was asked with.
        for seen in q.succeeded(source["tool"]) if "tool" in source else ():
            found = seen.args.get(source["path"])
            names = _names if source.get("named") else _is_same
            for one in found if isinstance(found, list) else [found]:
                if _is_name(one) and names(one, value):
                    return True
    return False


def _names(text: Any, value: Any) -> bool:
    return f" {_spelt(value)} " in f" {' '.join(_spelt(text).split())} "


def _is_same(one: Any, other: Any) -> bool:
    return _spelt(one) == _spelt(other)


def _is_name(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool) and value == value


def _keeps_out(q: Question) -> bool:
    if not q.is_call(q.args[0]):
        return False
    source = q.parameter(2, "source")
    said = q.call.args.get(q.parameter(1, "field"))
    texts = said if isinstance(said, list) else [said]
    words = [word for text in texts if text is not None for word in _plain_words(text)]
    for seen in q.calls(source["tool"]):
        if seen.ended == "ok":
            found = seen.args.get(source["path"])
            for one in found if isinstance(found, list) else [found]:
                secret = _plain_words(one)
                if secret and f" {' '.join(secret)} " in f" {' '.join(words)} ":
                    return True
                if len("".join(secret)) >= 8 and "".join(secret) in "".join(words):
                    return True
    return False


def _plain_words(value: Any) -> list[str]:
    if value is None or isinstance(value, bool):
        return []
    return re.findall(r"[^\W_]+", _spelt(value).casefold())


def _required_at_end(q: Question) -> bool:
    return not q.succeeded(q.args[0])


def _existence_at_end(q: Question) -> bool:
    return bool(len(q.succeeded(q.args[0])) < q.parameter(1, "n"))


def _response_at_end(q: Question) -> bool:
    first, then = q.args[:2]
    return any(
        not any(
            answer.ended == "ok" and answer.step > seen.step and answer.ended_at - seen.at <= q.within
            for answer in q.calls(then, must=True)
        )
        for seen in q.calls(first)
        if seen.ended != "aborted"
    )


_AT_CALL: dict[str, Callable[[Question], bool]] = {
    "must_precede": _must_precede,
    "cannot_follow_without": _cannot_follow_without,
    "at_most_n_times": _at_most_n_times,
    "at_most_in_flight": _at_most_in_flight,
    "rate_limit": _rate_limit,
    "at_most_total": _at_most_total,
    "never_after": _never_after,
    "mutually_exclusive": _mutually_exclusive,
    "requires": _requires,
    "never": _never,
    "only": _only,
    "init": _init,
    "alternate_precedence": _alternate_precedence,
    "chain_precedence": _chain_precedence,
    "max_distinct": _max_distinct,
    "came_from": _came_from,
    "keeps_out": _keeps_out,
}

_AT_END: dict[str, Callable[[Question], bool]] = {
    "required_before_session_end": _required_at_end,
    "existence": _existence_at_end,
    "response": _response_at_end,
}

# Which calls a contract with a key must not be evaded by, if their key cannot be read.
_STRICT: dict[str, Callable[[Spec, Seen], bool]] = {
    "must_precede": lambda s, c: means(s["args"][1], c) and s["args"][0] != s["args"][1],
    "cannot_follow_without": lambda s, c: means(s["args"][0], c) and s["args"][0] != s["args"][1],
    "never_after": lambda s, c: means(s["args"][0], c) or means(s["args"][1], c),
    "mutually_exclusive": lambda s, c: (
        s["args"][0] != s["args"][1] and (means(s["args"][0], c) or means(s["args"][1], c))
    ),
    "response": lambda s, c: means(s["args"][0], c),
    "alternate_precedence": lambda s, c: means(s["args"][1], c),
    "chain_precedence": lambda s, c: means(s["args"][1], c),
    "init": lambda s, c: not means(s["args"][0], c, must=True),
    "required_before_session_end": lambda s, c: False,
    "existence": lambda s, c: False,
}


def _concerns_strictly(spec: Spec, call: Seen) -> bool:
    strict = _STRICT.get(spec["template"])
    return means(spec["args"][0], call) if strict is None else strict(spec, call)


def _project(
    spec: Spec, before: Sequence[Seen], call: Seen, asked: Callable[[Seen], bool]
) -> Question | None:
    """The question among the calls with the same key; None if the call's key cannot be read."""
    args, kwargs = spec.get("args", []), spec.get("kwargs", {})
    path = kwargs.get("key")
    if path is None:
        return Question(before, call, args, kwargs, asked=asked)
    key = _key(path, call, kwargs.get("fold"))
    if key is None:
        return None
    return Question(before, call, args, kwargs, key, asked)


def _key(path: str, seen: Seen, fold: str | None = None) -> str | None:
    value: Any = seen.args
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    usable = isinstance(value, str | int | float) and not isinstance(value, bool)
    return _spelt(value, fold) if usable else None


def _spelt(value: Any, fold: str | None = None) -> str:
    """One spelling for all that a person would take for the same."""
    text = unicodedata.normalize("NFC", str(value))
    text = "".join(c for c in text if c.isspace() or unicodedata.category(c) not in ("Cf", "Cc")).strip()
    if fold == "case":
        text = unicodedata.normalize("NFC", text.casefold())
    whole, point, rest = text.partition(".")
    return whole if point and rest and not rest.strip("0") and whole.isascii() and whole.isdigit() else text


def _spent(q: Question, field: str, seen: Seen) -> Fraction:
    ran = _amount(seen.args.get(field))
    if ran is None and seen.ran is not None:
        # What ran cannot be told any more, so what was judged counts, if it was let through as that.
        judged = next((one for one in q.before if one.step == seen.step), seen)
        ran = _amount(judged.args.get(field)) if q.was_meant(judged) else None
    return ran or Fraction(0)


def _used(q: Question, field: str, seen: Seen) -> set[str]:
    ran = _values(seen.args.get(field), q.fold)
    if ran is None and seen.ran is not None:
        judged = next((one for one in q.before if one.step == seen.step), seen)
        ran = _values(judged.args.get(field), q.fold) if q.was_meant(judged) else None
    return ran or set()


def _amount(value: Any) -> Fraction | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        # The number that was written: 0.1 is one tenth.
        amount = Fraction(repr(value))
    except ValueError:
        return None
    return amount if amount >= 0 else None


def _values(value: Any, fold: str | None) -> set[str] | None:
    items = value if isinstance(value, list) else [value]
    if any(item is None or isinstance(item, bool) for item in items):
        return None
    return {_spelt(item, fold) for item in items}
