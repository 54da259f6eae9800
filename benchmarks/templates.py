"""One call under one contract of each kind: what each template, key, window and pattern costs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import openbox_agentrt.acel as ours

from .peers import ARGUMENTS, FIRST, MANY, RESULT, TOOL, Once, acel_call, our_call
from .tables import TIMED, Row, Table, timed_rows
from .timing import OURS, interleaved

HALVES = f"{OURS}, precheck and postcheck"

Make = Callable[[Any], Any]
"""One contract of `openbox_agentrt.acel` or of acel-core, whichever module is given."""

SHARED: dict[str, Make] = {
    "must_precede": lambda acel: acel.must_precede(FIRST, TOOL),
    "at_most_n_times": lambda acel: acel.at_most_n_times(TOOL, MANY),
    "at_most_total": lambda acel: acel.at_most_total(TOOL, "amount", MANY),
    "rate_limit, one a minute in its window": lambda acel: acel.rate_limit(
        TOOL, 10_000, 60, clock=ticking(60)
    ),
    "rate_limit, 1,000 in its window": lambda acel: acel.rate_limit(TOOL, 10_000, 60, clock=ticking(0.06)),
    "never_after": lambda acel: acel.never_after("end", TOOL),
    "mutually_exclusive": lambda acel: acel.mutually_exclusive("end", TOOL),
    "required_before_session_end": lambda acel: acel.required_before_session_end(TOOL),
    "a pattern, a plain word": lambda acel: acel.never_after("end", acel.matching(TOOL, "^ad", field="to")),
    "a pattern": lambda acel: acel.never_after("end", acel.matching(TOOL, r"^a\w+$", field="to")),
}
"""What both have."""

OWN: dict[str, Make] = {
    "response": lambda acel: acel.response(TOOL, FIRST),
    "existence": lambda acel: acel.existence(TOOL, 3),
    "max_distinct": lambda acel: acel.max_distinct(TOOL, "to", 5),
    "requires_state": lambda acel: acel.requires_state(TOOL, "open", True),
    "requires": lambda acel: acel.requires(TOOL, "args.amount <= 500 && args.to.startsWith('a')"),
    "at_most_n_times when": lambda acel: acel.at_most_n_times(TOOL, MANY, when="args.amount > 0"),
    "must_precede within an hour": lambda acel: acel.must_precede(FIRST, TOOL, within=3600),
    "at_most_n_times by key": lambda acel: acel.at_most_n_times(TOOL, MANY, key="to"),
    "at_most_total by key": lambda acel: acel.at_most_total(TOOL, "amount", MANY, key="to"),
    "must_precede by key": lambda acel: acel.must_precede(FIRST, TOOL, key="to"),
    "came_from a list": lambda acel: acel.came_from(TOOL, "to", [{"values": [ARGUMENTS["to"]]}]),
}

PAIRS: dict[str, Make] = {
    "cannot_follow_without": lambda acel: acel.cannot_follow_without(TOOL, FIRST),
    "alternate_precedence": lambda acel: acel.alternate_precedence(FIRST, TOOL),
    "chain_precedence": lambda acel: acel.chain_precedence(FIRST, TOOL),
}
"""The first call has to come before each second one, so two calls are measured."""


def measure(quick: bool) -> Table:
    """Take the time of one call under one contract of each kind, about the tool that is called."""
    cases: dict[str, dict[str, Once]] = {}
    for name, make in SHARED.items():
        cases[name] = _ours(make) | {"acel-core": acel_call(_peer(make))}
    for name, make in OWN.items():
        cases[name] = _ours(make)
    for name, make in PAIRS.items():
        cases[f"{name}, a pair of calls"] = {OURS: _pair(_session(make))}
    cases["a precondition"] = {
        OURS: our_call(_conditioned(ours.Session(max_trace=1000))),
        HALVES: acel_call(_conditioned(ours.Session(max_trace=1000))),
        "acel-core": acel_call(_conditioned(_peer_session())),
    }
    rows: list[Row] = []
    for name, contenders in cases.items():
        rows += timed_rows(name, interleaved(contenders, quick=quick))
    return Table(
        name="templates",
        title="The gate, by template",
        columns=TIMED,
        rows=rows,
        notes=(
            "Reserve and commit, and the same session called as programs of acel-core call it."
            " Sessions keep the last 1,000 calls; acel-core keeps all."
            " The mean of ours is about a fifth above the median, since 256 calls are hashed at once and old"
            " rows are freed; that of acel-core, which frees none, about a seventh."
        ),
    )


def ticking(seconds: float) -> Callable[[], float]:
    """Give a clock on which `seconds` pass between one reading and the next."""
    ticks = itertools.count()
    return lambda: next(ticks) * seconds


def _ours(make: Make) -> dict[str, Once]:
    return {OURS: our_call(_session(make)), HALVES: acel_call(_session(make))}


def _session(make: Make) -> ours.Session:
    session = ours.Session({"open": True}, contracts=[make(ours)], max_trace=1000)
    session.call(FIRST, ARGUMENTS, result=RESULT)
    return session


def _peer(make: Make) -> Any:
    session = _peer_session()
    session.add_contract(make(_acel()))
    session.call(FIRST, ARGUMENTS, result=RESULT)
    return session


def _peer_session() -> Any:
    return _acel().Session()


def _acel() -> Any:
    import acel

    return acel


def _conditioned(session: Any) -> Any:
    session.register_tool(TOOL, precondition=lambda state, args: args["amount"] < MANY)
    return session


def _pair(session: ours.Session) -> Once:
    first, then = our_call(session, FIRST), our_call(session, TOOL)

    def both() -> object:
        first()
        return then()

    return both
