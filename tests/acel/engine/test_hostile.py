"""Whatever a model sends, nothing but the documented exceptions comes out."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openbox_agentrt._plain.arguments import plain, plain_args
from openbox_agentrt._plain.unseen import Unseen, unseen_in
from openbox_agentrt.acel import (
    ContentMatch,
    ContractViolation,
    PatternError,
    Session,
    TraceError,
    any_of,
    at_most_n_times,
    at_most_total,
    build_contract,
    chain_precedence,
    matching,
    max_distinct,
    must_precede,
    rate_limit,
    requires_state,
    response,
    suspicious_names,
)
from openbox_agentrt.acel.contracts.template import Template
from openbox_agentrt.acel.session import engine_of


class Hostile:
    """Raises whatever is asked of it."""

    def __boom(self, *_: Any) -> Any:
        raise RuntimeError("secret")

    __str__ = __repr__ = __eq__ = __hash__ = __bool__ = __len__ = __iter__ = __getattr__ = __boom


class HostileMapping(Mapping[str, Any]):
    """A mapping that can be asked for its length only."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError

    def __len__(self) -> int:
        return 3


def cyclic() -> dict[str, Any]:
    """A dict that holds itself."""
    value: dict[str, Any] = {"n": 1}
    value["self"] = value
    value["list"] = [value]
    return value


def deep() -> Any:
    """A list in a list in a list."""
    value: Any = 1
    for _ in range(10_000):
        value = [value]
    return value


# Made when they are needed: printing one of these is an error in itself.
MADE: tuple[Callable[[], Any], ...] = (Hostile, HostileMapping, cyclic, deep, lambda: 10**5000)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(codec=None), max_size=20),
    st.binary(max_size=5),
    st.decimals(),
    st.complex_numbers(),
    st.sampled_from([Decimal("1e999999"), object]),
    st.sampled_from(range(5)).map(lambda which: MADE[which]()),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner),
        st.dictionaries(st.one_of(st.text(max_size=5), st.integers(), st.none()), inner, max_size=3),
    ),
    max_leaves=6,
)
names = st.one_of(
    st.sampled_from(["x", "y", "pay"]), st.text(st.characters(codec=None), max_size=10), scalars
)
arguments = st.one_of(
    st.fixed_dictionaries({}, optional={"n": values, "k": values, "command": values, "to": values}), values
)


def contracts() -> list[Template]:
    """Contracts that look at everything that can be looked at."""
    return [
        at_most_total("*", "n", 100, key="k"),
        at_most_total(any_of("x", "y"), "n.a", 100, within=60, numeric_text=True, allow_negative=True),
        rate_limit("*", 3, 60, key="k.id"),
        max_distinct("*", "to", 3),
        at_most_n_times(matching("x", "rm|drop", field="command"), 0),
        at_most_n_times(ContentMatch("y", lambda args: args["n"] > 3), 2),
        at_most_n_times(lambda tool, args: args["k"] == 1, 5),
        must_precede("x", "y"),
        response("x", "y", 10),
        chain_precedence("x", "pay", key="k"),
        requires_state("pay", "ok", 1, key="k"),
    ]


@pytest.mark.parametrize("mode", ["enforce", "shadow"])
@settings(max_examples=60, deadline=None)
@given(calls=st.lists(st.tuples(names, arguments, values), max_size=6))
def test_calls_of_any_shape(mode: Any, calls: list[tuple[Any, Any, Any]]) -> None:
    """They are refused or let through; what is told to a model is JSON."""
    session = Session({"ok": {"1": 1}}, mode=mode, contracts=contracts())
    session.register_tool(
        "x",
        precondition=lambda s, args: args["n"] != 7,
        postcondition=lambda s, r: r["ok"],
        commit=lambda s, a, r: s.set("r", r),
    )

    for tool, args, result in calls:
        reservation = session.reserve(tool, args)
        if not reservation.allowed:
            assert reservation.refusal is not None
            json.dumps(reservation.refusal.for_model())
            assert "\n" not in reservation.refusal.message
            assert "secret" not in reservation.refusal.message
            continue
        assert mode == "enforce" or reservation.commit(result) is None
        if mode == "enforce":
            reservation.commit(result, measured={"n": result})
    session.end_session()

    assert session.in_flight == 0
    assert engine_of(session).records.failures == 0
    for violation in session.violations:
        json.dumps(violation.to_record())
        hash(violation)
        assert violation == violation
    assert mode == "enforce" or not any(v.blocked for v in session.violations)


@settings(max_examples=60, deadline=None)
@given(tool=names, args=arguments, result=values)
def test_call_and_precheck(tool: Any, args: Any, result: Any) -> None:
    """`call` raises a violation or returns the result; `precheck` never raises."""
    session = Session(contracts=contracts())
    session.precheck(tool, args)

    with contextlib.suppress(ContractViolation):
        session.call(tool, args, result=result)

    assert {violation.kind for violation in session.violations} <= {"temporal", "session"}


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(
        st.one_of(
            values,
            st.fixed_dictionaries(
                {"tool": names}, optional={"args": arguments, "ts": scalars, "outcome": scalars}
            ),
        ),
        max_size=5,
    )
)
def test_traces_of_any_shape(rows: list[Any]) -> None:
    """They are judged, or a row is named."""
    session = Session(contracts=contracts())

    with contextlib.suppress(TraceError):
        session.replay(rows)

    assert session.in_flight == 0


@settings(max_examples=200, deadline=None)
@given(
    spec=st.fixed_dictionaries(
        {
            "template": st.one_of(
                st.sampled_from(
                    ["must_precede", "at_most_total", "rate_limit", "response", "requires_state"]
                ),
                scalars,
            )
        },
        optional={
            "args": st.one_of(
                st.lists(
                    st.one_of(values, st.just({"tool": "x", "matches": "(a"}), st.just({"any_of": ["x"]})),
                    max_size=4,
                ),
                values,
            ),
            "kwargs": st.one_of(
                st.dictionaries(
                    st.sampled_from(["key", "within", "n", "limit", "mode", "id", "zz"]), values, max_size=3
                ),
                values,
            ),
        },
    )
)
def test_specs_of_any_shape(spec: dict[str, Any]) -> None:
    """They are a contract, or a ValueError or TypeError."""
    try:
        contract = build_contract(spec)
    except (ValueError, TypeError):
        return
    Session(contracts=[contract]).reserve("x", {"n": 1})


@settings(max_examples=100, deadline=None)
@given(pattern=st.text(st.characters(codec=None), max_size=30), text=values)
def test_patterns_of_any_shape(pattern: str, text: Any) -> None:
    """They are searched for, or are an error that names them."""
    try:
        matcher = matching("x", pattern)
    except PatternError:
        return
    Session(contracts=[at_most_n_times(matcher, 1)]).reserve("x", {"command": text})


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(st.characters(codec=None), max_size=10), max_size=5))
def test_names_of_any_shape(given_names: list[str]) -> None:
    """A report is one line of plain characters."""
    for report in suspicious_names(given_names):
        assert report.describe().isascii()
        assert report.describe().isprintable()


def test_copies_end() -> None:
    """On cycles, depth, and containers whose own code raises."""
    assert plain_args(cyclic()) == {"n": 1, "self": Unseen("cycle"), "list": [Unseen("cycle")]}
    assert Unseen("too deep") in unseen_in(plain(deep()))
    assert plain({"m": HostileMapping()}) == {"m": Unseen("unreadable")}
    hostile = Hostile()
    assert plain({"h": [hostile]})["h"][0] is hostile


def test_the_same_container_twice_is_no_cycle() -> None:
    """Only one inside itself is."""
    shared = [1]

    assert plain([shared, shared]) == [[1], [1]]
