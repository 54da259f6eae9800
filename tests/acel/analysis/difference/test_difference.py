"""Where two sets of rules part: the shortest trace in both directions, and the changes in words."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.acel import Session, at_most_n_times
from openbox_agentrt.acel.analysis import Difference, compare
from openbox_agentrt.acel.analysis.budget import Budget
from openbox_agentrt.acel.analysis.difference.side_by_side import Pair, Parted, Side
from openbox_agentrt.acel.analysis.rules.components import Component
from openbox_agentrt.acel.contracts.declaration import Declaration
from openbox_agentrt.acel.rulesfile import Rules, parse_rules, read_rules


def c(template: str, *args: Any, **more: Any) -> dict[str, Any]:
    """A contract as data."""
    return {"template": template, "args": list(args), **more}


def rules(*contracts: dict[str, Any], **more: Any) -> Rules:
    return parse_rules({"contracts": list(contracts), "allow_empty": True, **more})


def traces(found: Difference) -> tuple[str | None, str | None]:
    return tuple(  # type: ignore[return-value]  # there are two
        None if trace is None else "; ".join(map(str, trace)) for trace in (found.stricter, found.looser)
    )


PARTED: dict[str, tuple[Rules, Rules, str | None, str | None]] = {
    "a halt, after which no other tool is let through": (
        rules(c("never", "wipe", id="no")),
        rules(c("never", "wipe", id="no", on_violation="halt")),
        "wipe() refused by no; other_tool() refused, since the session is halted",
        None,
    ),
    "a limit on keys in whatever case": (
        rules(c("at_most_n_times", "invite", 1, key="mail", id="one")),
        rules(c("at_most_n_times", "invite", 1, key="mail", fold="case", id="one")),
        'invite(mail="ann"); invite(mail="ANN") refused by one',
        None,
    ),
    "a lower limit": (
        rules(c("at_most_total", "refund", "amount", 500)),
        rules(c("at_most_total", "refund", "amount", 400, id="cap")),
        "refund(amount=401) refused by cap",
        None,
    ),
    "a limit for each customer": (
        rules(c("at_most_n_times", "refund", 1, id="one")),
        rules(c("at_most_n_times", "refund", 1, key="customer", id="one")),
        "refund() refused by one",
        'refund(customer="A"); refund(customer="B") refused by one',
    ),
    "only watched now": (
        rules(c("never", "drop", id="ban")),
        rules(c("never", "drop", id="ban", mode="shadow")),
        None,
        "drop() refused by ban",
    ),
    "a new order": (
        rules(c("must_precede", "check", "pay", id="first")),
        rules(c("must_precede", "sign", "pay", id="first")),
        "check(); pay() refused by first",
        "sign(); pay() refused by first",
    ),
    "a glob for a name": (
        rules(c("never", "db_drop", id="ban")),
        rules(c("never", "db_*", id="ban")),
        "db_x() refused by ban",
        None,
    ),
    "a longer window": (
        rules(c("rate_limit", "pay", 1, 60, id="rate")),
        rules(c("rate_limit", "pay", 1, 3600, id="rate")),
        "pay(); wait 61 s; pay() refused by rate",
        None,
    ),
    "more at once": (
        rules(c("at_most_in_flight", "pay", 1, id="cap")),
        rules(c("at_most_in_flight", "pay", 2, id="cap")),
        None,
        "pay() is under way; pay() refused by cap",
    ),
    "one at a time of each": (
        rules(c("at_most_in_flight", "pay", 1, id="cap")),
        rules(c("at_most_in_flight", "pay", 1, key="order", id="cap")),
        "pay() refused by cap",
        'pay(order="A") is under way; pay(order="B") refused by cap',
    ),
    "a day for an hour": (
        rules(c("at_most_n_times", "pay", 1, per="hour", id="cap")),
        rules(c("at_most_n_times", "pay", 1, per="day", id="cap")),
        "pay(); wait for the next hour; pay() refused by cap",
        None,
    ),
    "a month for a week": (
        rules(c("at_most_n_times", "pay", 1, per="week", tz="Europe/Berlin", id="cap")),
        rules(c("at_most_n_times", "pay", 1, per="month", tz="Europe/Berlin", id="cap")),
        "pay(); wait for the next week in Europe/Berlin; pay() refused by cap",
        None,
    ),
    "of a customer": (
        rules(c("at_most_n_times", "pay", 1, key="$subject.customer", id="cap")),
        rules(c("at_most_n_times", "pay", 2, key="$subject.customer", id="cap")),
        None,
        "pay(); pay() refused by cap",
    ),
    "another pattern": (
        rules(c("never", {"tool": "Bash", "matches": "rm -rf"}, id="rm")),
        rules(c("never", {"tool": "Bash", "matches": "^rm"}, id="rm")),
        'Bash(command="rm") refused by rm',
        'Bash(command=" rm -rf") refused by rm',
    ),
    "another value of an entry": (
        rules(c("requires_state", "pay", "level", 1, id="level")),
        rules(c("requires_state", "pay", "level", 2, id="level")),
        "code writes level = 1; pay() refused by level",
        "code writes level = 2; pay() refused by level",
    ),
    "an entry that is set": (
        rules(c("requires_state", "pay", "open", True, id="open"), state={"open": True}),
        rules(c("requires_state", "pay", "open", True, id="open"), state={"open": False}),
        "pay() refused by open",
        None,
    ),
}


@pytest.mark.parametrize("change", PARTED)
def test_the_first_call_on_which_they_part(change: str) -> None:
    """It is found in each direction in which there is one."""
    old, new, stricter, looser = PARTED[change]
    found = compare(old, new)

    assert not found.same
    said = traces(found)
    if change == "another pattern":
        assert said[0] == stricter
        assert said[1] is not None
        assert said[1].endswith('rm -rf") refused by rm')
    else:
        assert said == (stricter, looser)


def test_it_is_found_in_the_other_direction_too() -> None:
    """What is stricter one way is looser the other way."""
    for old, new, *_ in PARTED.values():
        assert traces(compare(old, new)) == traces(compare(new, old))[::-1]


def test_a_new_obligation_is_a_difference_at_the_end() -> None:
    """No call is refused for it, and a session that ends shows it."""
    found = compare(rules(), rules(c("response", "open", "close", id="closing")))

    assert found.stricter is found.looser is None
    assert found.owed is not None
    assert "; ".join(map(str, found.owed)) == "open(); the session ends, unmet: closing"
    assert found.forgiven is None


def test_of_two_changes_the_shorter_trace_is_told() -> None:
    """Contracts that have nothing to do with each other are searched apart, and compared at the end."""
    new = rules(c("at_most_n_times", "pay", 3), c("never", "drop", id="ban"))

    assert traces(compare(rules(), new)) == ("drop() refused by ban", None)


def test_both_sides_may_hold_the_very_same_contract() -> None:
    """What stayed the same object is the same contract."""
    old = rules(c("never", "drop", id="ban"), c("at_most_n_times", "pay", 1, id="once"))
    new = rules(c("at_most_n_times", "pay", 2, id="once"))
    object.__setattr__(new, "contracts", (old.contracts[0], *new.contracts))

    assert traces(compare(old, new)) == (None, "pay(); pay() refused by once")


def test_changes_are_told_in_words() -> None:
    """What was added, removed, and what of a contract is new."""
    found = compare(
        rules(c("at_most_total", "pay", "amount", 500, id="cap"), c("never", "drop"), c("never", "x")),
        rules(c("at_most_total", "pay", "amount", 400.5, id="cap"), c("never", "x"), c("never", "y")),
    )

    assert list(found.changes.lines()) == [
        "changed: cap: limit 500 -> 400.5",
        "added: never(y)",
        "removed: never(drop)",
    ]
    assert found.changes.same == 1


def test_a_change_that_changes_no_call_says_so() -> None:
    """A contract that another implies may go, and the report says that nothing was found."""
    one, two = c("at_most_n_times", "pay", 2), c("at_most_n_times", "pay", 5)
    found = compare(rules(one, two), rules(one))

    assert traces(found) == (None, None)
    assert "no call was found on which they part" in list(found.lines())


MANY = [c("at_most_n_times", {"any_of": ["pay", f"t{n}"]}, 9) for n in range(9)]


def test_contracts_that_did_not_change_are_left_out() -> None:
    """Of many contracts over one tool, the one that changed is enough to decide."""
    old = rules(c("at_most_n_times", "pay", 1, id="cap"), *MANY)
    new = rules(c("at_most_n_times", "pay", 2, id="cap"), *MANY)
    found = compare(old, new, states=30)

    assert found.undecided == ()
    assert traces(found) == (None, "pay(); pay() refused by cap")


def test_a_contract_that_stands_in_the_way_is_watched_too() -> None:
    """What others demand before a call is in the trace, step by step."""
    steps = [c("must_precede", f"t{n}", f"t{n + 1}") for n in range(9)]
    gone = c("requires_state", "t9", "open", True, id="open")
    found = compare(rules(*MANY, *steps, gone), rules(*MANY, *steps))

    assert found.undecided == ()
    assert traces(found)[0] is None
    assert traces(found)[1] == "; ".join(f"t{n}()" for n in range(10)) + " refused by open"


def test_what_is_too_large_is_undecided() -> None:
    """Without time for everything, it is said, and what was found until then is shown."""
    old = rules(c("at_most_n_times", "pay", 9, id="cap"), *MANY)
    new = rules(c("at_most_n_times", "pay", 8, id="cap"), *MANY)

    assert compare(old, new, states=3).undecided


def test_a_contract_that_is_not_analysed_may_stand_in_the_way() -> None:
    """That they part behind it is not known, and is not denied."""
    old, new = rules(c("at_most_n_times", "pay", 1)), rules(c("at_most_n_times", "pay", 2))
    for side in (old, new):
        code = at_most_n_times(lambda tool, given: tool == "pay", 0, id="code")
        object.__setattr__(side, "contracts", (*side.contracts, code))
    found = compare(old, new)

    assert traces(found) == (None, None)
    assert found.undecided == ("whether they part where code refuses too, which is not analysed",)


@pytest.mark.parametrize("seed", range(24))
def test_every_sequence_agrees(seed: int) -> None:
    """Where nothing is found, no sequence parts them; where something is, none that is shorter does."""
    random_ = random.Random(seed)
    both = _random(random_).contracts if seed % 2 else ()
    old, new = _random(random_), _random(random_)
    for side in (old, new):
        object.__setattr__(side, "contracts", (*side.contracts, *both))
    found = compare(old, new)
    shortest = {True: found.stricter, False: found.looser}
    for length in range(1, 5):
        for calls in itertools.product("abc", repeat=length):
            was, now = _last(old, calls), _last(new, calls)
            if was is not None and now is not None and was is not now:
                trace = shortest[was]
                assert trace is not None
                assert len(trace) <= length


def _last(read: Rules, calls: tuple[str, ...]) -> bool | None:
    """Whether the last of some calls is let through; None where one before it is not."""
    session = Session(contracts=read.contracts, halt_on_violation=False)
    for tool in calls[:-1]:
        call = session.reserve(tool)
        if not call.allowed:
            return None
        call.commit()
    last = session.reserve(calls[-1])
    if last.allowed:
        last.abort()
    return last.allowed


def _random(random_: random.Random) -> Rules:
    found = []
    for _ in range(random_.choice([1, 2])):
        one, two = random_.sample("abc", 2)
        template = random_.choice(["must_precede", "never_after", "at_most_n_times", "alternate_precedence"])
        found.append(c(template, one, random_.choice([1, 2]) if template == "at_most_n_times" else two))
    return rules(*found)


def test_an_obligation_that_changes_its_tool_under_its_name_parts_them() -> None:
    """The contract of the same name on the other side is watched too, though no tool is about both."""
    found = compare(
        rules(c("required_before_session_end", "summarise", id="must")),
        rules(c("required_before_session_end", "report", id="must")),
    )

    assert "; ".join(map(str, found.owed or ())) == "summarise(); the session ends, unmet: must"
    assert "; ".join(map(str, found.forgiven or ())) == "report(); the session ends, unmet: must"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(c("max_distinct", "send", "to", 9), c("max_distinct", "send", "to", 10), id="values"),
        pytest.param(c("at_most_n_times", "send", 12), c("at_most_n_times", "send", 11), id="customers"),
    ],
)
def test_what_takes_more_values_than_are_tried_is_open(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Where nothing was found because the values of a key gave out, that is said."""
    once = c("at_most_n_times", "send", 1, key="to")

    assert compare(rules(once, old), rules(once, new)).undecided


def test_other_arguments_are_as_many_as_a_limit_needs() -> None:
    """Under a limit for each different call, three different ones are tried where three are let through."""
    once = c("at_most_n_times", "send", 1, key="*")
    found = compare(
        rules(once, c("at_most_n_times", "send", 2)), rules(once, c("at_most_n_times", "send", 3))
    )

    assert found.looser is not None
    assert len(found.looser) == 3


ENDS: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], str | None, str | None]] = {
    "one of two that are unmet": (
        [c("existence", "report", 1, id="must"), c("existence", "sign", 1, id="sign")],
        [c("existence", "report", 1, id="must")],
        None,
        "the session ends, unmet: sign",
    ),
    "another one": (
        [c("response", "open", "close", id="closing")],
        [c("response", "open", "sign", id="signing")],
        "open(); the session ends, unmet: signing",
        "open(); the session ends, unmet: closing",
    ),
    "more of it, without an id": (
        [c("existence", "report", 1)],
        [c("existence", "report", 2)],
        "report(); the session ends, unmet: existence(report, n=2)",
        None,
    ),
    "only watched now": (
        [c("existence", "report", 1, id="must")],
        [c("existence", "report", 1, id="must", mode="shadow")],
        None,
        "the session ends, unmet: must",
    ),
    "where calls part too": (
        [c("at_most_n_times", "a", 1, id="a"), c("response", "a", "b", id="b")],
        [c("at_most_n_times", "a", 2, id="a"), c("at_most_n_times", "b", 0), c("response", "a", "c", id="b")],
        None,
        "a(); c(); the session ends, unmet: b",
    ),
    "only if it was told": (
        [c("existence", "report", 1, id="must")],
        [c("existence", "report", 1, id="must", when='facts.user.tier == "gold"')],
        None,
        'login() gives {"tier": "other"}; the session ends, unmet: must',
    ),
}


@pytest.mark.parametrize("change", ENDS)
def test_which_contracts_are_unmet_at_the_end(change: str) -> None:
    """They are told apart one by one, in both directions, each with a shortest session."""
    old, new, owed, forgiven = ENDS[change]
    facts = [{"tool": "login", "as": "user", "values": {"tier": "tier"}}]
    found = compare(rules(*old, facts=facts), rules(*new, facts=facts))
    said = [None if t is None else "; ".join(map(str, t)) for t in (found.owed, found.forgiven)]

    assert said == [owed, forgiven]
    assert found.undecided == ()


def test_time_that_ends_in_the_only_state_is_said() -> None:
    """Calls that were not looked at any more leave open whether they part."""
    times: Iterator[float] = itertools.repeat(0.0)
    some = rules(c("never", {"tool": "run", "matches": "p"}))
    known: list[Declaration] = list(some.contracts)
    side = Side(list(known), known, {})
    budget = Budget(10.0, 1000, clock=lambda: next(times))
    pair = Pair(side, side, known, Component((0,), ("run",)), budget)

    times = itertools.chain([0.0], itertools.repeat(99.0))

    assert not pair.search(Parted())


def test_an_end_that_no_session_shows_is_open() -> None:
    """Where facts that no call told keep a trace from its end, nothing is decided about the end."""
    facts = [{"tool": "look", "as": "order", "key": "id", "values": {"status": "status"}}]
    check = 'facts.order[args.id].status == "open"'
    asked = c("requires", "pay", check=check)
    old = rules(asked, c("existence", "pay", 2, id="must"), facts=facts)
    new = rules(asked, c("existence", "pay", 3, id="must"), facts=facts)

    found = compare(old, new)

    assert found.owed is not None or any("at the end" in what for what in found.undecided)


@pytest.mark.parametrize("gone", ["fresh-balance", "daily-limit"])
def test_a_contract_among_many_about_the_same_calls_is_gone_straight_for(gone: str) -> None:
    """Where the nearest states are too many, calls are looked for that it alone refuses."""
    file = Path(__file__).parents[1] / "realistic" / "bank.yaml"
    old, new = read_rules(file), read_rules(file)
    object.__setattr__(new, "contracts", tuple(one for one in new.contracts if one.id != gone))
    found = compare(old, new, states=100)

    assert found.undecided == ()
    assert found.stricter is None
    assert found.looser is not None
    assert found.looser[-1].by == (gone,)
