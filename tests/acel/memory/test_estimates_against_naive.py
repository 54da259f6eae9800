"""Amounts that are known only afterwards, against a reading of them that remembers every call."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from openbox_agentrt.acel import Session, at_most_total

LIMIT = 10


@dataclass(eq=False)
class Call:
    """One call that was let through: what it is taken for, and whether anybody will ever know better."""

    counts: Fraction
    blocks: bool = False


def lets_through(calls: list[Call], estimate: int | None) -> bool:
    """Nothing that nobody measured may stand there; the estimate has to fit, or anything has to be left."""
    estimate = estimate or None  # one of nothing is none
    total = sum((call.counts for call in calls), Fraction(0))
    if any(call.blocks for call in calls):
        return False
    return total < LIMIT if estimate is None else total + estimate <= LIMIT


endings = st.one_of(
    st.tuples(st.just("commit"), st.none() | st.integers(0, 8)),
    st.tuples(st.just("fail"), st.none() | st.integers(0, 8)),
    st.tuples(st.just("lose"), st.none() | st.integers(0, 8)),
    st.tuples(st.just("undo"), st.none()),
)
steps = st.lists(st.one_of(st.just("reserve"), st.tuples(st.integers(0, 5), endings)), max_size=24)


@given(steps=steps, estimate=st.none() | st.integers(0, 6))
def test_every_decision_is_that_of_the_naive_reading(steps: list[object], estimate: int | None) -> None:
    """Reserved as the estimate, settled as measured; what nobody measured stays on the strict side."""
    session = Session(contracts=[at_most_total("pay", "n", LIMIT, estimate=estimate)])
    calls: list[Call] = []
    flying = []
    for step in steps:
        if step == "reserve":
            call = session.reserve("pay", {}, deferred=["n"])
            assert call.allowed is lets_through(calls, estimate)
            if call.allowed:
                calls.append(Call(Fraction(estimate or 0)))
                flying.append((call, calls[-1]))
            continue
        assert isinstance(step, tuple)
        position, (ending, measured) = step
        if not flying:
            continue
        call, known = flying.pop(position % len(flying))
        given_ = None if measured is None else {"n": measured}
        match ending:
            case "commit":
                call.commit(measured=given_)
            case "fail":
                call.abort(ran=True, measured=given_)
            case "lose":
                call.lose(measured=given_)
            case _:
                call.abort(ran=False)
                calls.remove(known)
                continue
        if measured is not None:
            known.counts = Fraction(measured)
        elif not estimate:
            known.blocks = True
