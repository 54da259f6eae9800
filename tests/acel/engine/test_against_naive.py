"""The engine agrees with the naive reading of each template, whatever happens and in whatever order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.naive import CONDITIONS, FACTS, Ended, Seen, breaks, breaks_at_end
from openbox_agentrt.acel import Session, build_contract
from openbox_agentrt.acel.contracts.base import TemporalContract
from openbox_agentrt.acel.reservation import Reservation
from openbox_agentrt.acel.verdict import Mode
from openbox_agentrt.acel.violations import Violation

Spec = Mapping[str, Any]

TOOLS = ("a", "b", "c", "db_read", "db_drop")
ARGS: tuple[dict[str, Any], ...] = (
    {},
    {"k": "x", "n": 1, "command": "run tests"},
    {"k": "y", "n": 2.5, "command": "commit"},
    {"k": 7, "n": 0.1, "to": ["u", "v"]},
    {"k": "7", "n": 3, "to": "w"},
    {"k": " x", "n": 2, "to": "u\u200b", "command": "commit after the tests"},
    {"k": 7.0, "n": 1.5, "to": ["v ", "w"]},
    {"k": "7.0", "n": 2, "to": "7"},
    {"k": "x", "n": True, "to": None},
    {"k": None, "n": float("nan"), "to": ["w", 5]},
    {"n": -1, "k": "y", "to": "u"},
    {"k": " x\u200b", "n": 1, "to": "u"},
    {"k": 7.0, "n": 1, "command": "commit"},
    {"k": "x", "n": 1, "command": ["commit", "run tests"]},
    {"k": "y", "n": 1, "command": ["commit", "commit it"]},
    {"k": "X", "n": 1, "to": "U"},
    {"k": "\u00e9", "n": 1, "to": ["e\u0301", "u"]},
    {"k": "e\u0301 ", "n": 1, "to": "\u00c9"},
)

# Mostly plain names, so that the calls of a schedule often meet.
tools = st.one_of(
    st.sampled_from(["a", "b"]),
    st.sampled_from(
        [
            "a",
            "b",
            "db_*",
            "?",
            {"any_of": ["a", "db_read"]},
            {"tool": "b", "matches": "COMMIT"},
            {"not": {"tool": "b", "matches": "commit"}},
        ]
    ),
)
options = st.fixed_dictionaries(
    {},
    optional={
        "key": st.sampled_from(["k"]),
        "fold": st.sampled_from(["case"]),
        "within": st.sampled_from([1, 5, 10.0]),
        "recheck": st.booleans(),
        "except": st.sampled_from([["c"], ["a"], ["db_*", "c"]]),
        "when": st.sampled_from(sorted(CONDITIONS)),
    },
)
plain_options = st.fixed_dictionaries(
    {},
    optional={
        "except": st.sampled_from([["c"], ["db_*", "c"]]),
        "when": st.sampled_from(sorted(CONDITIONS)),
    },
)
sinces = st.fixed_dictionaries({}, optional={"since": tools})
refunds = st.fixed_dictionaries({}, optional={"refund_on_failure": st.booleans()})


def _spec(template: str, args: list[Any], *kwargs: Mapping[str, Any]) -> Spec:
    merged: dict[str, Any] = {}
    for more in kwargs:
        merged.update(more)
    if "key" not in merged and template != "max_distinct":
        merged.pop("fold", None)
    if template in ("existence", "required_before_session_end") and "when" in merged:
        # It is asked at the end, when there are no arguments.
        merged["when"] = "session.a < 2"
    spec = {"template": template, "args": args, "kwargs": merged}
    return {**spec, "facts": FACTS} if "when" in merged or template == "requires" else spec


def _list(*parts: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.tuples(*parts).map(list)


two = _list(tools, tools)
paths = st.sampled_from(["to", "k", "command"])
sources = st.one_of(
    st.fixed_dictionaries({"tool": tools, "path": paths}, optional={"named": st.booleans()}),
    st.fixed_dictionaries({"values": st.lists(st.sampled_from(["w", 7, "x "]), min_size=1, max_size=2)}),
)
secrets = st.fixed_dictionaries({"tool": tools, "path": paths})
unkeyed = st.fixed_dictionaries(
    {}, optional={"within": st.sampled_from([1, 5, 10.0]), "except": st.sampled_from([["c"], ["a"]])}
)
PARAMETERS: dict[str, tuple[st.SearchStrategy[Any], ...]] = {
    "must_precede": (two, options, sinces),
    "cannot_follow_without": (two, options, sinces),
    "never_after": (two, options),
    "mutually_exclusive": (two, options),
    "chain_precedence": (two, options),
    "response": (two, options),
    "alternate_precedence": (
        two,
        options,
        refunds,
        st.fixed_dictionaries({}, optional={"saving": st.booleans()}),
    ),
    "at_most_n_times": (_list(tools, st.integers(0, 3)), options, refunds),
    "at_most_in_flight": (_list(tools, st.integers(1, 2)), options),
    "at_most_total": (_list(tools, st.just("n"), st.sampled_from([0, 0.3, 3, 5.5])), options, refunds),
    "rate_limit": (
        _list(tools, st.integers(1, 2), st.sampled_from([1, 5])),
        st.fixed_dictionaries({}, optional={"key": st.just("k"), "fold": st.just("case")}),
        refunds,
    ),
    "max_distinct": (_list(tools, st.just("to"), st.integers(0, 3)), options, refunds),
    "init": (_list(tools), options),
    "required_before_session_end": (_list(tools), options),
    "existence": (_list(tools, st.integers(1, 3)), options),
    "came_from": (
        _list(tools, st.sampled_from(["to", "k", "command"]), st.lists(sources, min_size=1, max_size=3)),
        unkeyed,
        st.fixed_dictionaries({}, optional={"optional": st.booleans()}),
    ),
    "keeps_out": (
        _list(tools, st.sampled_from(["to", "k", "command"]), secrets),
        st.fixed_dictionaries({}, optional={"except": st.sampled_from([["c"], ["a"]])}),
    ),
    "requires": (_list(tools, st.sampled_from(sorted(CONDITIONS))), plain_options),
    "never": (_list(tools),),
    "only": (_list(tools),),
}

starts = st.tuples(
    st.just("start"),
    st.one_of(st.sampled_from(["a", "b"]), st.sampled_from(TOOLS)),
    st.sampled_from(range(len(ARGS))),
)
others = st.one_of(st.none(), st.none(), st.sampled_from(range(len(ARGS))))
ends = st.tuples(
    st.sampled_from(["ok", "ok", "ok", "failed", "aborted", "unknown"]), st.integers(0, 5), others
)
ticks = st.tuples(st.just("tick"), st.sampled_from([0.5, 1, 4, 5, 6, -3, -20]), st.none())
snapshots = st.tuples(st.just("snapshot"), st.none(), st.none())
rechecks = st.tuples(st.just("recheck"), st.integers(0, 5), st.none())
schedules = st.lists(
    st.one_of(starts, starts, starts, ends, ends, ends, ticks, snapshots, rechecks), min_size=6, max_size=40
)


@dataclass
class Run:
    """
    One schedule, run through the engine and watched by the naive reading.

    Attributes:
        spec: The contract.
        shadow: Whether the session only watches.
        late: After how many actions the contract is added.
    """

    spec: Spec
    shadow: bool
    late: int = 0
    now: float = 1000.0
    latest: float = 0.0
    order: int = 0
    seen: list[Seen] = field(default_factory=list)
    open: list[tuple[Reservation, Seen]] = field(default_factory=list)
    told: list[Violation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.contract = build_contract(self.spec)
        self.session = Session(mode=self.mode, clock=self.clock, contracts=self.contracts)

    @property
    def mode(self) -> Mode:
        return "shadow" if self.shadow else "enforce"

    @property
    def contracts(self) -> list[TemporalContract]:
        return [self.contract] if self.order >= self.late else []

    def clock(self) -> float:
        # What nobody looked at has not been: the latest time is the latest that was shown.
        self.latest = max(self.latest, self.now)
        return self.now

    def run(self, schedule: list[tuple[Any, ...]]) -> None:
        for what, which, args in schedule:
            self.order += 1
            if self.order == self.late:
                self.session.add_contract(self.contract)
            if what == "tick":
                self.now += which
            elif what == "start":
                self.start(which, ARGS[args])
            elif what == "snapshot":
                self.go_on_elsewhere()
            elif what == "recheck":
                # Whether a contract is asked was decided when the call was judged.
                if self.open and not {"since", "when"} & self.spec["kwargs"].keys():
                    self.recheck(which % len(self.open))
            elif self.open:
                self.end(self.open.pop(which % len(self.open)), what, None if args is None else ARGS[args])
        if self.order < self.late:
            self.session.add_contract(self.contract)

    def start(self, tool: str, args: dict[str, Any]) -> None:
        reservation = self.session.reserve(tool, args)
        call = Seen(step=reservation.step, tool=tool, args=args, at=self.latest, order=self.order)
        expected = bool(self.contracts) and breaks(self.spec, self.seen, call)
        found = [v for v in reservation.violations if v.needs is None or self.spec["template"] != "response"]
        # A late answer is reported when the next call comes, and is no refusal.
        refused = bool(found) if self.shadow else not reservation.allowed
        assert refused is expected, (tool, args, self.seen, reservation.violations)
        if reservation.allowed:
            self.open.append((reservation, call))
            if self.contracts:
                self.seen.append(call)

    def recheck(self, which: int) -> None:
        """It is judged as if it came now, and is then let through now."""
        reservation, call = self.open[which]
        before = len(reservation.violations)
        holds = reservation.recheck()
        found = reservation.violations[before:]
        windowed = "within" in self.spec["kwargs"] or self.spec["template"] == "rate_limit"
        changes = windowed or any(word in str(self.spec["args"][1:]) for word in ("facts.", "session."))
        others = [seen for seen in self.seen if seen is not call]
        asked = replace(call, at=self.latest, order=self.order)
        wanted = self.spec["kwargs"].get("recheck", changes) and any(seen is call for seen in self.seen)
        expected = bool(wanted) and breaks(self.spec, others, asked)
        found = tuple(v for v in found if v.needs is None or self.spec["template"] != "response")
        assert (bool(found) if self.shadow else not holds) is expected, (call, others, found)
        if not holds:
            self.open.pop(which)
            call.ended, call.ended_at, call.ended_order = "aborted", self.latest, self.order
        elif wanted:
            call.again += (self.order,)
        if holds and windowed:
            call.at = self.latest

    def end(self, entry: tuple[Reservation, Seen], how: Ended, ran: dict[str, Any] | None) -> None:
        reservation, call = entry
        if how == "ok":
            # A call returns what it was asked with.
            assert reservation.commit(dict(call.args if ran is None else ran), args=ran) is None
        elif how == "unknown":
            reservation.lose(args=ran)
            assert self.session.in_flight == len(self.open)
        else:
            reservation.abort(ran=how == "failed", args=ran)
        call.ended, call.ended_at, call.ended_order, call.ran = how, self.latest, self.order, ran

    def go_on_elsewhere(self) -> None:
        """Calls under way are unknown outcomes in a snapshot."""
        taken = json.loads(json.dumps(self.session.snapshot()))
        self.told += self.session.violations
        self.session = Session.restore(taken, self.contracts, mode=self.mode, clock=self.clock)
        for _, call in self.open:
            call.ended, call.ended_at, call.ended_order = "unknown", self.latest, self.order
        self.open.clear()

    def finish(self) -> None:
        self.session.end_session()
        expected = breaks_at_end(self.spec, self.seen, self.latest)
        told = [*self.told, *self.session.violations]
        late = [v for v in told if v.tool == "<session-end>" or v.needs is not None]
        if self.spec["template"] in ("response", "existence", "required_before_session_end"):
            assert bool(late) is expected, (self.seen, self.session.violations)
        assert self.session.in_flight == len(self.open)


def _exact(spec: Spec, schedule: list[tuple[Any, ...]]) -> bool:
    # Which of several prerequisites a call used up is chosen when it comes. If it is taken back later,
    # choosing again from the start may come out better, so only "never more" holds.
    return spec["template"] != "alternate_precedence" or "within" not in spec["kwargs"]


def _bites(spec: Spec) -> bool:
    """Whether an exception leaves something of a contract; if not, it is refused."""
    try:
        build_contract(spec)
    except ValueError as error:
        if "except takes away every call" not in str(error):
            raise
        return False
    return True


@pytest.mark.parametrize("shadow", [False, True], ids=["enforce", "shadow"])
@pytest.mark.parametrize("template", PARAMETERS)
@settings(max_examples=40, deadline=None)
@given(data=st.data(), schedule=schedules)
def test_each_template_agrees_with_its_sentence(
    template: str, shadow: bool, data: st.DataObject, schedule: list[tuple[Any, ...]]
) -> None:
    """
    With failures, aborts, lost calls, calls side by side, other arguments than were judged, keys in many
    spellings, contracts that come late, snapshots that are restored elsewhere, and a clock that jumps.

    In shadow mode everything happens, and each call that would have been refused is one record.
    """
    spec = data.draw(st.builds(_spec, st.just(template), *PARAMETERS[template]).filter(_bites))
    if not _exact(spec, schedule):
        schedule = [action for action in schedule if action[0] not in ("aborted", "failed", "recheck")]
    run = Run(spec, shadow=shadow, late=data.draw(st.sampled_from([0, 0, 0, 3, 12])))
    run.run(schedule)
    run.finish()


@pytest.mark.parametrize("shadow", [False, True], ids=["enforce", "shadow"])
@pytest.mark.parametrize(
    ("spec", "schedule"),
    [
        pytest.param(
            _spec("alternate_precedence", ["a", "b"], {"saving": False}),
            [
                ("start", "a", 0),
                ("ok", 0, None),
                ("start", "b", 0),
                ("start", "a", 0),
                ("ok", 1, None),
                ("start", "b", 0),
                ("aborted", 0, None),
                ("start", "b", 0),
            ],
            id="a replaced prerequisite does not come back",
        ),
        pytest.param(
            _spec("alternate_precedence", ["b", "a"]),
            [
                ("start", "a", 0),
                ("start", "b", 0),
                ("ok", -1, None),
                ("start", "a", 0),
                ("start", "a", 0),
                ("aborted", -2, None),
                ("start", "a", 0),
            ],
            id="a prerequisite that comes back is used up by the call that ran without",
        ),
        pytest.param(
            _spec("alternate_precedence", ["b", {"tool": "b", "matches": "COMMIT"}]),
            [("start", "b", 0), ("ok", 0, 2), ("start", "b", 2)],
            id="a call that became both takes before it gives",
        ),
        pytest.param(
            _spec("at_most_n_times", ["a", 1], {"key": "k", "fold": "case"}),
            [("start", "a", 1), ("snapshot", None, None), ("start", "a", 15), ("start", "a", 16)],
            id="a key in capitals is the same where case is folded",
        ),
        pytest.param(
            _spec("at_most_n_times", ["a", 1], {"key": "k"}),
            [("start", "a", 16), ("snapshot", None, None), ("start", "a", 17)],
            id="a letter in two characters is the same as in one",
        ),
    ],
)
def test_found_by_thinking(spec: Spec, schedule: list[tuple[Any, ...]], shadow: bool) -> None:
    """Cases that random schedules hit rarely."""
    run = Run(spec, shadow=shadow)
    run.run(schedule)
    run.finish()
