"""The identity of a set of rules is what they mean."""

from __future__ import annotations

import unicodedata
from decimal import Decimal
from typing import Any

import pytest

from openbox_agentrt.acel import (
    Session,
    SnapshotError,
    any_of,
    at_most_n_times,
    at_most_total,
    build_contract,
    cannot_follow_without,
    fact,
    matching,
    must_precede,
    mutually_exclusive,
    rate_limit,
    requires,
    requires_state,
    response,
    rules_hash,
)
from openbox_agentrt.acel.contracts.base import TemporalContract
from openbox_agentrt.acel.contracts.fields import named_fields
from openbox_agentrt.acel.contracts.options import Options
from openbox_agentrt.acel.contracts.parameters import parameters_of
from openbox_agentrt.acel.contracts.registry import CLASSES
from openbox_agentrt.acel.match.matchers import AnyOf, ContentMatch
from openbox_agentrt.acel.match.selector import select

NFD = unicodedata.normalize("NFD", "café")

APART = [
    pytest.param(
        at_most_n_times(matching("Bash", "rm -rf"), 0),
        at_most_n_times("Bash(command~/rm -rf/)", 0),
        id="a pattern and a tool that is named like it",
    ),
    pytest.param(
        at_most_n_times(any_of("a", "b"), 0), at_most_n_times("any_of(a, b)", 0), id="any_of and a name"
    ),
    pytest.param(must_precede("a, b", "c"), must_precede("a", "b, c"), id="a comma in a name"),
    pytest.param(
        must_precede("a", "b", within=2_592_000), must_precede("a", "b", within=2_592_004), id="30 days"
    ),
    pytest.param(requires("a", "args.b == ' x'"), requires("a", "args.b == '  x'"), id="blanks in a text"),
    pytest.param(requires("a", "args.b == 1"), requires("a", "args.b == 1.0"), id="two conditions"),
    pytest.param(requires_state("a", "k", True), requires_state("a", "k", 1), id="a boolean and a number"),
    pytest.param(requires_state("a", "k", "1"), requires_state("a", "k", 1), id="a text and a number"),
    pytest.param(
        at_most_n_times(ContentMatch("a", lambda args: True, label="b"), 0),
        at_most_n_times("b", 0),
        id="a label and a name",
    ),
    pytest.param(rate_limit("a", 1, 60), rate_limit("a", 1, 60, clock=lambda: 0.0), id="a clock of its own"),
]

ALIKE = [
    pytest.param(at_most_total("p", "n", 500), at_most_total("p", "n", 500.0), id="a limit as a float"),
    pytest.param(at_most_total("p", "n", 0.5), at_most_total("p", "n", Decimal("0.50")), id="a decimal"),
    pytest.param(rate_limit("p", 1, 60), rate_limit("p", 1, 60.0), id="a window"),
    pytest.param(
        requires("a", "args.b==1"),
        requires("a", "args.b ==\n 1 // so"),
        id="blanks and comments of a condition",
    ),
    pytest.param(
        requires(
            "a", "args.b in facts.o", facts=[fact(["x", "y"], "o", key="args.b", values={"c": "d", "e": "f"})]
        ),
        requires(
            "a",
            "args.b in facts.o",
            facts=[fact(["y", "x"], "o", key="b", values={"e": "result.f", "c": "d"}), fact("z", "unread")],
        ),
        id="a fact in full and in short",
    ),
    pytest.param(must_precede("café", "b"), must_precede(NFD, "b"), id="normal form"),
    pytest.param(
        at_most_n_times(any_of("b", any_of("a", "b")), 1), at_most_n_times(any_of("a", "b"), 1), id="any_of"
    ),
    pytest.param(at_most_n_times(any_of("a"), 1), at_most_n_times("a", 1), id="any_of one"),
    pytest.param(at_most_n_times(any_of("a", "a"), 1), at_most_n_times("a", 1), id="any_of one twice"),
    pytest.param(
        at_most_n_times("*", 1, except_=["c", "d"]), at_most_n_times("*", 1, except_=["d", "c"]), id="except"
    ),
    pytest.param(
        at_most_n_times("a", 1, key=["k", "b"], fold="case"),
        at_most_n_times("a", 1, key=["b", "k"], fold="case"),
        id="a key of several",
    ),
    pytest.param(
        response(any_of("a", "b"), any_of("x", "y")), response(any_of("b", "a"), any_of("y", "x")), id="roles"
    ),
    pytest.param(
        at_most_n_times("a", 1, description="why", remedy="ask"),
        at_most_n_times("a", 1),
        id="words for people",
    ),
    pytest.param(
        build_contract({"template": "must_precede", "kwargs": {"later": "b", "earlier": "a"}}),
        must_precede("a", "b"),
        id="data and code",
    ),
]


@pytest.mark.parametrize(("one", "other"), APART)
def test_different_rules_are_told_apart(one: TemporalContract, other: TemporalContract) -> None:
    """However alike they are written."""
    assert rules_hash([one]) != rules_hash([other])


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_equal_rules_are_equal(one: TemporalContract, other: TemporalContract) -> None:
    """However differently they are written, and in any order."""
    more = never = at_most_n_times("x", 0)
    assert rules_hash([one, more]) == rules_hash([never, other])


@pytest.mark.parametrize(("one", "other"), ALIKE)
@pytest.mark.parametrize("added", [False, True], ids=["from the start", "added on the way"])
def test_what_equal_rules_remember_is_the_same(
    one: TemporalContract, other: TemporalContract, added: bool
) -> None:
    """Whoever goes on under them goes on with the same counts."""
    arguments = {"k": 1, "b": 1, "n": 1}
    first = [at_most_n_times("z", 9), *([] if added else [one])]
    session = Session(contracts=first, mode="shadow")
    session.call("z")
    if added:
        session.add_contract(one)
    for tool in ("a", "b", "p"):
        session.call(tool, arguments, result={"f": 1, "c": 1})
    taken = session.snapshot()

    restored = Session.restore(taken, [at_most_n_times("z", 9), other], mode="shadow").snapshot()

    assert restored["memory"]["cells"] == taken["memory"]["cells"]
    for name in ("since", "violated"):
        kept = [[entry[0].rpartition(" #")[2], *entry[1:]] for entry in restored["memory"][name]]
        assert kept == [[entry[0].rpartition(" #")[2], *entry[1:]] for entry in taken["memory"][name]]


@pytest.mark.parametrize("template", [must_precede, cannot_follow_without, mutually_exclusive])
@pytest.mark.parametrize("other", [any_of("a", "b"), any_of("b", "a"), any_of("b", any_of("a", "b"))])
def test_one_set_of_tools_on_both_sides_is_one_however_it_is_written(template: Any, other: AnyOf) -> None:
    """What rules of one hash decide cannot depend on the order in which somebody wrote them."""
    session = Session(contracts=[template(any_of("a", "b"), other)])

    assert [session.call(tool) for tool in ("a", "b")] == [None, None]


def test_equal_rules_side_by_side_share_their_memory() -> None:
    """Two pieces of memory of one name could not be told apart by whoever goes on with them."""
    contracts = [
        at_most_n_times(any_of("a", "b"), 2, id="one"),
        at_most_n_times(any_of("b", "a"), 1, id="other"),
        at_most_n_times("a", 2, key=["x", "y"], id="of both"),
        at_most_n_times("a", 1, key=["y", "x"], id="of both, turned"),
    ]
    session = Session(contracts=contracts)
    session.call("a", {"x": 1, "y": 1})

    taken = session.snapshot()

    assert list(taken["memory"]["cells"]) == ["tally(any_of(a, b))", "tally(a; key=[x, y])"]
    assert not Session.restore(taken, contracts).reserve("b").allowed


OTHER: dict[str, Any] = {
    "tool": "other",
    "text": "false",
    "count": 7,
    "number": 9.5,
    "scalar": "other",
    "choice": "host",
    "source": {"tool": "other"},
    "sources": [{"values": ["x"]}],
}
DEFAULT: dict[str, Any] = {
    "tool": "a",
    "text": "true",
    "count": 3,
    "number": 5.5,
    "scalar": "x",
    "source": {"tool": "a", "path": "p"},
    "sources": ["prompt"],
}
OPTIONS = {
    "key": ("k", "other"),
    "fold": ("case", "number"),
    "except_": ("x", "y"),
    "recheck": (True, False),
    "within": (5.0, 6.0),
    "id": ("i", "other"),
    "severity": ("low", "high"),
    "mode": ("shadow", "enforce"),
    "on_violation": ("halt", "refuse"),
    "scope": ("run", "session"),
    "per": ("day", "week"),
    "tz": ("Europe/Berlin", "UTC"),
    "forever": (True, False),
    "overshoot": (True, False),
    "name": ("big", "other"),
    "when": ("session.a > 1", "session.a > 2"),
    "facts": (
        [fact("find", "order", key="id", values={"status": "status"})],
        [fact("find", "order", key="id", values={"status": "state"})],
    ),
}
# What else has to be said for an option to mean something.
BESIDE: dict[str, dict[str, Any]] = {
    "fold": {"key": "k"},
    "facts": {"when": "args.id in facts.order"},
    "tz": {"per": "day"},
    "overshoot": {"scope": "fleet", "per": "day"},
    "name": {"scope": "fleet", "per": "day"},
}
TERMS = [
    (template, parameter)
    for template in CLASSES
    for parameter in parameters_of(template)
    if (template, parameter.name) != ("response", "within")
]


def made(template: str, **more: Any) -> TemporalContract:
    given = {
        parameter.name: DEFAULT[parameter.kind] for parameter in parameters_of(template) if parameter.required
    }
    return CLASSES[template](**{**given, **more})


@pytest.mark.parametrize(("template", "parameter"), TERMS, ids=lambda value: getattr(value, "name", value))
def test_every_argument_counts(template: str, parameter: Any) -> None:
    """An argument that a template gets later, and does not keep, fails here."""
    if parameter.kind == "flag":
        changed = [made(template, **{parameter.name: on}) for on in (True, False)]
    else:
        kind = "choice" if parameter.name == "match" else parameter.kind
        changed = [made(template), made(template, **{parameter.name: OTHER[kind]})]

    assert len({rules_hash([contract]) for contract in changed}) == 2


@pytest.mark.parametrize("option", Options.__annotations__)
def test_every_option_counts(option: str) -> None:
    """But for those that are only words for people."""
    if option in ("description", "remedy"):
        return
    if option == "forever":
        # Without it, there has to be another end.
        one = made("at_most_n_times", scope="fleet", forever=True)
        other = made("at_most_n_times", scope="fleet", per="day")
    else:
        template = "at_most_total" if option in ("per", "tz", "overshoot", "name") else "init"
        beside = BESIDE.get(option, {})
        one, other = (made(template, **beside, **{option: value}) for value in OPTIONS[option])

    assert rules_hash([one]) != rules_hash([other])


def test_a_snapshot_of_a_ban_is_not_restored_under_a_name() -> None:
    """What it remembers means nothing to another rule."""
    snapshot = Session(contracts=[at_most_n_times(matching("Bash", "rm -rf"), 0)]).snapshot()

    with pytest.raises(SnapshotError, match="was taken under rules"):
        Session.restore(snapshot, [at_most_n_times("Bash(command~/rm -rf/)", 0)])


def test_a_function_takes_part_by_name() -> None:
    """What it does cannot be compared."""

    def risky(tool: str, args: dict[str, Any]) -> bool:
        return True

    assert select(risky).form() == ["function", "risky"]


@pytest.mark.parametrize(
    ("contract", "fields"),
    [
        (at_most_total("pay", "items.*.amount", 5, key="customer"), {"items.*.amount", "customer"}),
        (
            at_most_n_times(any_of("a", matching("b", "x", field="to")), 1, key=["k", "l.m"]),
            {"to", "k", "l.m"},
        ),
        (
            must_precede("a", "b", key={"a": "x", "b": "y"}, except_=matching("a", "z", field="w")),
            {"x", "y", "w"},
        ),
        (at_most_n_times("a", 1, key="*"), {"*"}),
        (at_most_n_times("a", 1), set()),
    ],
)
def test_the_fields_that_a_contract_names(contract: TemporalContract, fields: set[str]) -> None:
    """Whoever has to know which arguments matter finds them all."""
    assert set(named_fields(contract)) == fields
