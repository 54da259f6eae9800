"""Values that calls find out: what is said of rules about them, against every sequence of calls."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from openbox_agentrt.acel import Session
from openbox_agentrt.acel.analysis import Analysis, TraceRow, analyse, compare
from openbox_agentrt.acel.rulesfile import Rules, parse_rules

Analysed = Callable[..., Analysis]

CONTACTS = {"tool": "get_contacts", "path": "contacts.*.iban"}
INBOX = {"tool": "read_inbox", "path": "*.body", "named": True}
KEY = {"tool": "vault", "path": "key"}


def c(template: str, *args: Any, **more: Any) -> dict[str, Any]:
    """A contract as data."""
    return {"template": template, "args": list(args), **more}


def _ends(rows: Sequence[TraceRow], contracts: list[dict[str, Any]]) -> list[bool]:
    """Let the calls of a trace happen in a real session, and tell which are let through."""
    now = [0.0]
    session = Session.from_rules(
        {"contracts": contracts, "allow_empty": True},
        halt_on_violation=False,
        clock=lambda: now[0],
        trace_window=0,
    )
    allowed = []
    for row in rows:
        if row.kind == "wait":
            now[0] += row.seconds
            continue
        call = session.reserve(row.tool, row.args)
        allowed.append(call.allowed)
        if call.allowed and row.outcome == "failed":
            call.abort(ran=True)
        elif call.allowed:
            call.commit(row.result)
    return allowed


PLANTED: dict[str, tuple[str, list[dict[str, Any]], set[str], str | None]] = {
    "a source that is banned": (
        "source-never-vouches",
        [
            c("came_from", "pay", "iban", ["prompt", CONTACTS], id="known"),
            c("never", "get_contacts", id="no"),
        ],
        {"known", "no"},
        "get_contacts() refused by no",
    ),
    "no source that is let through": (
        "tool-never-allowed",
        [c("came_from", "pay", "iban", [CONTACTS], id="known"), c("never", "get_contacts", id="no")],
        {"known"},
        'pay(iban="A") refused by known',
    ),
    "two lists that have nothing in common": (
        "tool-never-allowed",
        [
            c("came_from", "pay", "iban", [{"values": ["DE1", "DE2"]}], id="one"),
            c("came_from", "pay", "iban", [{"values": ["DE3"]}], id="two"),
        ],
        {"one", "two"},
        'pay(iban="A") refused by one, two',
    ),
    "a source less": (
        "contract-implied-by",
        [
            c("came_from", "pay", "iban", [CONTACTS], id="one"),
            c("came_from", "pay", "iban", [CONTACTS, "prompt"], id="two"),
        ],
        {"one", "two"},
        'pay(iban="A") refused by one, two',
    ),
    "a look that the source asks for as well": (
        "contract-implied-by",
        [
            c("came_from", "pay", "iban", [CONTACTS], id="one"),
            c("must_precede", "get_contacts", "pay", id="two"),
        ],
        {"one", "two"},
        None,
    ),
    "a secret that never comes in": (
        "contract-implied-by",
        [c("keeps_out", "mail", "body", KEY, id="in"), c("never", "vault")],
        {"in"},
        None,
    ),
    "a text that anybody writes": (
        "source-is-free-text",
        [c("came_from", "pay", "iban", ["prompt", INBOX], id="named")],
        {"named"},
        None,
    ),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_what_is_planted_is_found(analysed: Analysed, planted: str) -> None:
    """The finding names the contracts, and a real session does what its trace says."""
    kind, contracts, names, witness = PLANTED[planted]

    found = analysed(*contracts)
    findings = [finding for finding in found.findings if finding.kind == kind]

    assert found.not_analysed == found.undecided == ()
    assert names <= {named.name for finding in findings for named in finding.contracts}
    if witness is not None:
        assert witness in {"; ".join(map(str, finding.witness or ())) for finding in findings}
    for finding in found.findings:
        rows = finding.witness or ()
        assert _ends(rows, contracts) == [row.outcome != "refused" for row in rows if row.kind == "call"]


CLEAN: dict[str, list[dict[str, Any]]] = {
    "two sources": [c("came_from", "pay", "iban", ["prompt", CONTACTS])],
    "by host, not too old": [
        c(
            *("came_from", "fetch", "url", ["prompt", {"tool": "search", "path": "results.*.url"}]),
            kwargs={"match": "host"},
            within=60,
        ),
        c("at_most_n_times", "fetch", 2, key="url"),
    ],
    "by domain": [
        c("came_from", "mail", "to", [{"tool": "people", "path": "*.mail"}], kwargs={"match": "domain"})
    ],
    "links of a text": [c("came_from", "mail", "body", ["prompt"], kwargs={"match": "links"})],
    "what may be left out": [c("came_from", "pay", "iban", [CONTACTS], kwargs={"optional": True})],
    "a list and a source": [c("came_from", "pay", "iban", [CONTACTS, {"values": ["DE1", "DE2"]}])],
    "a secret": [c("keeps_out", "mail", "*", KEY), c("came_from", "mail", "to", ["prompt"])],
    "each account once": [
        c("came_from", "pay", "iban", [CONTACTS]),
        c("at_most_n_times", "pay", 1, key="iban"),
    ],
    "a whole result": [c("came_from", "close", "ticket", [{"tool": "open"}])],
}


@pytest.mark.parametrize("rules", CLEAN)
def test_what_is_well_is_not_reported(analysed: Analysed, rules: str) -> None:
    """Each contract decides somewhere: nothing is found, and nothing is left open."""
    found = analysed(*CLEAN[rules])

    assert (found.findings, found.undecided, found.not_analysed) == ((), (), ())


@pytest.mark.parametrize("rules", CLEAN)
def test_each_contract_is_seen_to_refuse(rules: str) -> None:
    """Taken out, every one of them is missed: a shortest trace shows a call that it alone refuses."""
    contracts = CLEAN[rules]
    for place in range(len(contracts)):
        rest = [*contracts[:place], *contracts[place + 1 :]]
        found = compare(_rules(rest), _rules(contracts))

        assert found.looser is None
        assert found.stricter is not None
        assert _ends(found.stricter, contracts)[-1] is False
        assert _ends(found.stricter, rest)[-1] is True


@pytest.mark.parametrize(
    "path",
    [
        *("content", "content.*.iban", "content.text", "structuredContent.iban", "update.messages.0.content"),
        *("*", "*.*", "1", "a.1.b", "*.text", "result"),
    ],
)
def test_a_value_is_found_at_any_path(analysed: Analysed, path: str) -> None:
    """The result that is tried has the value where the source looks for it, whatever else is read into it."""
    contracts = [c("came_from", "pay", "iban", [{"tool": "look", "path": path}], id="known")]

    assert analysed(*contracts).findings == ()
    found = compare(_rules([*contracts, c("never", "pay")]), _rules(contracts))
    assert found.looser is not None
    assert _ends(found.looser, contracts) == [True, True]


def test_a_value_that_is_listed_is_written_as_it_is(analysed: Analysed) -> None:
    """A listed value of one letter is no name that was made up, and made-up ones are not among the listed."""
    listed = c("came_from", "pay", "iban", [{"values": ["b", "A"]}, "prompt"], id="listed")
    once = c("at_most_n_times", "pay", 1, id="once")

    found = compare(_rules([listed]), _rules([listed, once]))
    assert found.stricter is not None
    assert len(found.stricter) == 2
    assert _ends(found.stricter, [listed, once]) == [True, False]
    less = compare(_rules([once]), _rules([listed, once]))
    assert less.stricter is not None
    assert [row.args for row in less.stricter] == [{"iban": "C"}]
    assert analysed(listed, once).findings == ()


def test_a_source_that_no_tool_is_is_named(analysed: Analysed) -> None:
    """With the tools that there are, a source of another name is named with the nearest."""
    contract = c("came_from", "pay", "iban", ["prompt", {"tool": "get_contract", "path": "iban"}])
    (finding,) = analysed(contract, tools=["pay", "get_contacts"]).findings

    assert finding.kind == "pattern-names-no-tool"
    assert "'get_contacts'" in finding.advice


def _rules(contracts: Sequence[dict[str, Any]]) -> Rules:
    return parse_rules({"contracts": list(contracts), "allow_empty": True})


# What can happen in a small world: a call, its arguments, what it returns, and whether it succeeds.
LETTERS: list[tuple[str, dict[str, Any], Any, bool]] = [
    ("user_prompt", {"prompt": "please a"}, None, True),
    ("get_contacts", {}, {"contacts": [{"iban": "a"}]}, True),
    ("get_contacts", {}, None, True),
    ("get_contacts", {}, None, False),
    ("vault", {}, {"key": "a"}, True),
    *(("pay", args, None, True) for args in ({"iban": "a"}, {"iban": "b"}, {})),
]


def _random(seed: int) -> list[dict[str, Any]]:
    random_ = random.Random(seed)
    sources = [["prompt"], [CONTACTS], ["prompt", CONTACTS]]
    choices = [
        lambda: c("came_from", "pay", "iban", random_.choice(sources)),
        lambda: c("came_from", "pay", "iban", random_.choice(sources), kwargs={"optional": True}),
        lambda: c("keeps_out", "pay", "iban", KEY),
        lambda: c("must_precede", random_.choice(["get_contacts", "vault"]), "pay"),
        lambda: c("never", random_.choice(["get_contacts", "vault"])),
        lambda: c("at_most_n_times", random_.choice(["pay", "get_contacts"]), 1),
    ]
    return [random_.choice(choices)() for _ in range(3)]


def _verdicts(contracts: Sequence[dict[str, Any]], length: int) -> Iterator[list[bool]]:
    built = _rules(contracts).contracts
    for calls in itertools.product(LETTERS, repeat=length):
        session = Session(contracts=built, halt_on_violation=False, trace_window=0, max_trace=0)
        verdicts = []
        for tool, args, result, succeeds in calls:
            call = session.reserve(tool, args)
            verdicts.append(call.allowed)
            if call.allowed:
                call.commit(result) if succeeds else call.abort(ran=True)
        yield verdicts


@pytest.mark.parametrize("seed", range(8))
def test_what_is_found_holds_for_every_sequence(seed: int) -> None:
    """No sequence contradicts a finding, and what a contract less would change is found."""
    contracts = _random(seed)
    found = analyse(_rules(contracts))
    idle = {
        finding.contracts[0].spec
        for finding in found.findings
        if finding.kind in ("contract-never-decides", "contract-implied-by")
    }
    verdicts = list(_verdicts(contracts, 3))
    specs = [contract.spec for contract in _rules(contracts).contracts]

    assert found.undecided == ()
    for place, spec in enumerate(specs):
        rest = [*contracts[:place], *contracts[place + 1 :]]
        missed = list(_verdicts(rest, 3)) != verdicts
        if spec in idle:
            assert not missed or specs.count(spec) > 1
        difference = compare(_rules(rest), _rules(contracts))
        assert (difference.stricter is not None) is missed
        assert difference.stricter is None or len(difference.stricter) <= 3
    never = {f.message.split("'")[1] for f in found.findings if f.kind == "tool-never-allowed"}
    paid = [
        calls[place][0]
        for calls, row in zip(itertools.product(LETTERS, repeat=3), verdicts, strict=True)
        for place, allowed in enumerate(row)
        if allowed
    ]
    assert not never & set(paid)
