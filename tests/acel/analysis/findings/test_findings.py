"""Each kind of finding is planted and found, with a shortest trace that a real session confirms."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import openbox_agentrt
from openbox_agentrt.acel import Session
from openbox_agentrt.acel.analysis import Analysis, Finding, TraceRow, analyse, compare
from openbox_agentrt.acel.analysis.questions.searched import FEW_VALUES
from openbox_agentrt.acel.contracts.exclusion import never
from openbox_agentrt.acel.contracts.precedence import must_precede
from openbox_agentrt.acel.policy_test_run import said_names
from openbox_agentrt.acel.rulesfile import Document, parse_rules, read_rules, rules_of
from openbox_agentrt.acel.rulesfile.policy_tests import policy_tests_of, read_policy_tests

Analysed = Callable[..., Analysis]
PACKAGE = Path(openbox_agentrt.__file__).parent


def c(template: str, *args: Any, **more: Any) -> dict[str, Any]:
    """A contract as data."""
    return {"template": template, "args": list(args), **more}


def bash(pattern: str) -> dict[str, Any]:
    return {"tool": "Bash", "matches": pattern}


PLANTED: dict[str, tuple[str, list[dict[str, Any]], set[str], str | None]] = {
    "a circle": (
        "tool-never-allowed",
        [c("must_precede", "a", "b", id="ab"), c("must_precede", "b", "a", id="ba")],
        {"ab", "ba"},
        "b() refused by ab",
    ),
    "never before and never after": (
        "tool-never-allowed",
        [c("must_precede", "login", "logout", id="in"), c("never_after", "logout", "login", id="out")],
        {"in", "out"},
        "logout() refused by in",
    ),
    "two patterns of which every text has one": (
        "tool-never-allowed",
        [
            c("must_precede", "x", {"not": bash("^l")}, id="one"),
            c("must_precede", "Bash", bash("^l"), id="two"),
            c("never_after", "Bash", "x", id="three"),
        ],
        {"one", "two", "three"},
        None,
    ),
    "a lower limit": (
        "contract-implied-by",
        [c("at_most_n_times", "pay", 5, id="five"), c("at_most_n_times", "pay", 2, id="two")],
        {"five", "two"},
        "pay(); pay(); pay() refused by two",
    ),
    "a pattern in another": (
        "contract-implied-by",
        [
            c("never", bash("rm -rf"), id="all"),
            c("never", bash("rm"), id="any"),
            c("never", bash("sudo"), id="root"),
        ],
        {"all", "any"},
        'Bash(command="rm -rf") refused by all, any',
    ),
    "at once more than ever": (
        "contract-implied-by",
        [c("at_most_in_flight", "pay", 2, id="two"), c("at_most_n_times", "pay", 1, id="one")],
        {"two", "one"},
        "pay() is under way; pay() refused by one",
    ),
    "fewer at once": (
        "contract-implied-by",
        [c("at_most_in_flight", "pay", 2, id="two"), c("at_most_in_flight", "*", 1, id="one")],
        {"two", "one"},
        "pay() is under way; pay() refused by one",
    ),
    "as many a day as in all": (
        "contract-implied-by",
        [c("at_most_n_times", "pay", 2, per="day", id="day"), c("at_most_n_times", "pay", 2, id="all")],
        {"day", "all"},
        "pay(); pay(); pay() refused by day, all",
    ),
    "a limit a month that one a week leaves no room for": (
        "contract-implied-by",
        [
            c("at_most_n_times", "pay", 9, per="day", id="day"),
            c("at_most_n_times", "pay", 8, per="week", id="week"),
        ],
        {"day", "week"},
        None,
    ),
    "a customer of a session": (
        "contract-implied-by",
        [
            c("at_most_n_times", "pay", 1, id="all"),
            c("at_most_n_times", "pay", 1, key="$subject.customer", id="each"),
        ],
        {"each", "all"},
        "pay(); pay() refused by all, each",
    ),
    "the same said twice": (
        "contract-implied-by",
        [c("must_precede", "a", "b", id="one"), c("cannot_follow_without", "b", "a", id="two")],
        {"one", "two"},
        "b() refused by one, two",
    ),
    "a glob and a name": (
        "contract-implied-by",
        [c("never", "db_*", id="all"), c("at_most_n_times", "db_drop", 2, id="one")],
        {"all", "one"},
        "db_drop() refused by all",
    ),
    "a way that ends": (
        "contract-implied-by",
        [
            c("must_precede", "a", "b", id="ab"),
            c("must_precede", "b", "c", id="bc"),
            c("init", "a", id="i"),
            c("must_precede", "a", "c", id="ac"),
        ],
        {"ab", "i"},
        None,
    ),
    "an obligation that is banned": (
        "obligation-cannot-be-met",
        [c("required_before_session_end", "mail", id="must"), c("never", "mail", id="ban")],
        {"must", "ban"},
        "the session ends, unmet: must",
    ),
    "an answer that is banned": (
        "obligation-cannot-be-met",
        [c("response", "open", "close", id="must"), c("at_most_n_times", "close", 0, id="ban")],
        {"must", "ban"},
        "open(); the session ends, unmet: must",
    ),
    "an answer that can be used up": (
        "session-cannot-end-well",
        [c("response", "open", "close", id="must"), c("at_most_n_times", "close", 1, id="cap")],
        {"must", "cap"},
        "open(); close() fails; the session ends, unmet: must",
    ),
    "two obligations that exclude each other": (
        "session-cannot-end-well",
        [
            c("existence", "a", id="a"),
            c("existence", "b", id="b"),
            c("mutually_exclusive", "a", "b", id="not-both"),
        ],
        {"a", "b"},
        "the session ends, unmet: a, b",
    ),
    "a test that every edit voids": (
        "tool-never-allowed",
        [
            c("must_precede", "test", "push", since="edit", id="fresh"),
            c("chain_precedence", "edit", "push", id="at-once"),
        ],
        {"fresh", "at-once"},
        "push() refused by fresh, at-once",
    ),
    "a pattern that is in no text": (
        "matcher-matches-nothing",
        [c("never", bash("$rm"), id="odd")],
        {"odd"},
        None,
    ),
    "a name as another tool writes it": (
        "looks-like-a-pattern",
        [c("never", "Edit|Write", id="odd")],
        {"odd"},
        None,
    ),
    "a halt that nobody has seen yet": (
        "shadow-contract-would-halt",
        [c("never", "drop", id="stop", mode="shadow", on_violation="halt")],
        {"stop"},
        "drop() by stop",
    ),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_what_is_planted_is_found(analysed: Analysed, planted: str) -> None:
    """The finding names the contracts, and its trace is as short as any."""
    kind, contracts, names, witness = PLANTED[planted]

    findings = [finding for finding in analysed(*contracts).findings if finding.kind == kind]

    assert findings
    assert names & {named.name for finding in findings for named in finding.contracts} == names
    if witness is not None:
        assert witness in {"; ".join(map(str, finding.witness or ())) for finding in findings}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_real_session_does_what_a_trace_says(analysed: Analysed, planted: str) -> None:
    """Each call of a witness ends in a session as it does in the trace."""
    contracts = PLANTED[planted][1]

    for finding in analysed(*contracts).findings:
        _confirm(finding, contracts)


def _confirm(finding: Finding, contracts: list[dict[str, Any]]) -> None:
    now = [0.0]
    session = Session.from_rules(
        {"contracts": contracts},
        halt_on_violation=False,
        clock=lambda: now[0],
        trace_window=0,
        subject={"customer": "c-7"},
    )
    flying = []
    for row in finding.witness or ():
        if row.kind == "call":
            call = session.reserve(row.tool, row.args)
            assert call.allowed is (row.outcome != "refused"), row
            if row.outcome == "started":
                flying.append(call)
            elif call.allowed and row.outcome == "failed":
                call.abort(ran=True)
            elif call.allowed:
                call.commit()
        elif row.kind == "wait":
            now[0] += row.seconds
        elif row.kind == "end":
            assert len(session.unmet()) == len(row.by)


CLEAN: dict[str, list[dict[str, Any]]] = {
    "a ban that is meant": [c("never", "drop")],
    "an old way to ban": [c("at_most_n_times", "drop", 0)],
    "a customer each and all together": [
        c("at_most_n_times", "refund", 1, key="customer"),
        c("at_most_n_times", "refund", 3),
    ],
    "a sum for each and one for all": [
        c("at_most_total", "refund", "amount", 100, key="customer"),
        c("at_most_total", "refund", "amount", 250),
    ],
    "a window and a limit": [c("rate_limit", "pay", 1, 60), c("at_most_n_times", "pay", 3)],
    "a glob and a name that needs more": [c("at_most_n_times", "db_*", 5), c("must_precede", "ok", "db_x")],
    "patterns that overlap": [
        c("never", bash("--force")),
        c("must_precede", "test", bash("^git push")),
        c("at_most_n_times", bash("git"), 3),
    ],
    "only, and more about one of them": [c("only", {"any_of": ["a", "b"]}), c("must_precede", "a", "b")],
    "a key that a pattern looks at": [
        c("never", {"tool": "Read", "matches": r"\.env", "field": "path"}),
        c("must_precede", "Read", "Edit", key="path"),
    ],
    "many values of an argument that a pattern looks at": [
        c("never", {"tool": "mail", "matches": "@evil", "field": "to"}),
        c("max_distinct", "mail", "to", 3),
    ],
    "five patterns": [
        c("must_precede", bash("pytest|npm (run )?test"), bash(r"(^|[;&|]\s*)git\s+commit")),
        c("never", bash(r"git\s+push\s+.*(--force|-f)\b")),
        c("never", bash(r"\brm\s+(-\w+\s+)*(/|~|\$HOME)")),
        c("never", bash(r"curl .*\|\s*(ba)?sh")),
        c("never", bash(r"\bsudo\b")),
    ],
    "one at a time": [c("at_most_in_flight", "pay", 1), c("at_most_n_times", "pay", 3)],
    "one at a time of each": [
        c("at_most_in_flight", "pay", 1, key="order"),
        c("at_most_in_flight", "pay", 3),
    ],
    "a limit a day and one in all": [
        c("at_most_n_times", "pay", 1, per="day"),
        c("at_most_n_times", "pay", 3),
    ],
    "a limit an hour, a week and a month": [
        c("at_most_n_times", "pay", 1, per="hour", tz="Europe/Berlin"),
        c("at_most_n_times", "pay", 2, per="week"),
        c("at_most_n_times", "pay", 3, per="month"),
    ],
    "an obligation to do two, one at a time": [c("at_most_in_flight", "pay", 1), c("existence", "pay", 2)],
    "a limit on all sessions above that of one": [
        c("at_most_n_times", "pay", 5, per="day", scope="fleet"),
        c("at_most_n_times", "pay", 1),
    ],
    "an entry that code writes": [c("requires_state", "pay", "signed_in", True)],
    "a chain": [c("chain_precedence", "a", "b"), c("at_most_n_times", "b", 2)],
    "one for one": [c("alternate_precedence", "a", "b"), c("at_most_n_times", "b", 4)],
    "many different": [c("max_distinct", "mail", "to", 3), c("at_most_n_times", "mail", 4)],
    "a pair of keys": [c("at_most_n_times", "pay", 1, key=["payer", "payee"])],
    "a key for each tool": [c("must_precede", "check", "pay", key={"check": "id", "pay": "customer"})],
    "a test after each edit": [
        c("must_precede", "test", "push", since="edit", key="repo"),
        c("at_most_n_times", "push", 2),
    ],
    "a test after each edit, not too old": [
        c("must_precede", "test", "push", since="edit", within=60),
        c("rate_limit", "push", 2, 600),
    ],
    "every argument": [c("at_most_n_times", "pay", 1, key="*")],
}


@pytest.mark.parametrize("rules", CLEAN)
def test_what_is_well_is_not_reported(analysed: Analysed, rules: str) -> None:
    """Nothing is found, and nothing is left open."""
    found = analysed(*CLEAN[rules])

    assert found.findings == ()
    assert found.undecided == ()
    assert found.states > 0


def test_a_customer_more_than_a_limit_is_not_called_impossible(analysed: Analysed) -> None:
    """A limit over all customers that needs more of them than are tried is left alone."""
    found = analysed(
        c("at_most_n_times", "refund", 1, key="customer"), c("at_most_n_times", "refund", 40, id="all")
    )

    assert found.findings == ()


def test_what_has_code_of_its_own_is_named(analysed: Analysed) -> None:
    """It is not analysed, and the rest is."""
    odd = never(lambda tool, args: tool == "x")
    found = analyse([odd, *parse_rules({"contracts": PLANTED["a circle"][1]}).contracts])

    assert len(found.not_analysed) == 1
    assert "a matcher is a function" in found.not_analysed[0]
    assert {finding.kind for finding in found.findings} == {"tool-never-allowed"}


@pytest.mark.parametrize(
    ("contract", "why"),
    [
        (c("never", {"tool": "Bash", "matches": "(?i)rm"}), "the pattern has flags"),
        (
            c("existence", "pay", 1, when="now > timestamp(0)"),
            "its condition is asked at the end",
        ),
        (c("at_most_in_flight", "pay", 2, when="session.pay < 2"), "not followed while it runs"),
    ],
)
def test_what_is_not_known_here_is_named(analysed: Analysed, contract: dict[str, Any], why: str) -> None:
    """A word whose meaning the search does not know is not guessed at."""
    found = analysed(contract, c("at_most_n_times", "pay", 2))

    assert why in found.not_analysed[0]
    assert found.findings == ()


def test_tools_that_there_are_show_a_name_that_is_wrong(analysed: Analysed) -> None:
    """A name, or a pattern, that fits no tool is named with the nearest that there is."""
    found = analysed(c("at_most_n_times", "delte_*", 3, id="typo"), tools=["delete_record", "read"])

    (finding,) = found.findings
    assert finding.kind == "pattern-names-no-tool"
    assert "'delete_record'" in finding.advice


def test_a_fact_that_no_tool_tells_is_named() -> None:
    """A condition that reads it can never hold; one that a tool tells is fine."""
    rules = parse_rules(
        {
            "facts": [{"tool": "get_order", "as": "order", "values": {"status": "status"}}],
            "contracts": [c("requires", "pay", "facts.order.status == 'open'", id="open")],
        }
    )

    (finding,) = analyse(rules, tools=["pay", "get_orders"]).findings
    assert finding.kind == "fact-is-never-known"
    assert "facts.order" in finding.message
    assert "'get_orders'" in finding.advice
    assert analyse(rules, tools=["pay", "get_order"]).findings == ()


def test_an_amount_that_does_not_matter_is_the_smallest() -> None:
    """A witness has no amount of nothing where 1 in the last place of the limits shows the same."""
    limits = [c("at_most_total", "pay", "amount", 0.5, id="sum"), c("at_most_n_times", "pay", 1, id="one")]
    rules = [*limits, c("at_most_n_times", "pay", 2, id="two")]
    (finding,) = analyse(parse_rules({"contracts": rules})).findings

    assert [str(row.args["amount"]) for row in finding.witness or () if row.args] == ["0.1", "0.1"]
    assert [row.by for row in finding.witness or ()] == [(), ("one",)]


def test_ten_thousand_contracts_end_in_time() -> None:
    """What there is no time for is named; nothing breaks, and nothing is called safe."""
    contracts = [must_precede(f"a{n}", f"a{n + 1}") for n in range(10_000)]
    found = analyse(contracts, seconds=0.2)

    assert found.undecided
    assert found.findings == ()


MANY = range(12)
HOSTILE: dict[str, list[dict[str, Any]]] = {
    "patterns of every order": [c("must_precede", "t", bash(f"{n}.*x.*{n}.*y.*{n}")) for n in "abcdefghij"],
    "patterns over many arguments": [
        c("never", {"tool": "x", "matches": f"p{m}", "field": f"a{n}"}) for n in MANY for m in range(5)
    ],
    "conditions over many arguments": [
        c("requires", "x", " && ".join(f'args.a{n} != "{m}"' for n in MANY for m in range(3)))
    ],
    "conditions that are not understood": [
        *(c("must_precede", f"p{n}", "x", when=f"args.c{n} + 1 > 3") for n in MANY),
        *(c("requires", "x", f"args.b{n}.matches('x')") for n in MANY),
    ],
    "globs of every order": [c("at_most_n_times", f"*{n}*x*{n}*", 3) for n in "abcdefghij"],
    "high limits": [
        c("at_most_n_times", "a", 10**6),
        c("existence", "a", 1000),
        c("at_most_in_flight", "a", 5000),
    ],
    "many over all": [c("at_most_n_times", {"any_of": ["x", f"t{n}"]}, 9) for n in range(40)],
}


@pytest.mark.parametrize("hostile", HOSTILE)
def test_what_explodes_ends_in_time(analysed: Analysed, hostile: str) -> None:
    """It is given up, nothing is found that is not so, and a change of it is compared as far as it goes."""
    found = analysed(*HOSTILE[hostile], seconds=0.3)

    assert found.findings == ()
    assert found.decided <= len(HOSTILE[hostile])
    old, new = (
        parse_rules({"contracts": rest})
        for rest in (HOSTILE[hostile], HOSTILE[hostile][:-1] or [c("never", "y")])
    )
    compare(old, new, seconds=0.3)


@pytest.mark.parametrize("milliseconds", [1, 4, 5, 6, 8, 10, 12])
def test_contracts_whose_tools_were_not_all_found_are_not_called_idle(
    analysed: Analysed, milliseconds: int
) -> None:
    """Wherever the time ends: every one of these refuses a fourth call."""
    found = analysed(*HOSTILE["globs of every order"], seconds=milliseconds / 1000)

    assert found.findings == ()


@pytest.mark.parametrize("name", ["claude_code/rules", "production/rules"])
def test_the_rules_of_an_example_are_decided(name: str) -> None:
    """Of every contract of them it is known if it ever decides, and nothing odd is found."""
    read = read_rules(Path(__file__).parents[4] / "examples" / f"{name}.yaml")
    found = analyse(read, seconds=60)

    assert (found.findings, found.undecided, found.not_analysed) == ((), (), ())
    assert found.decided == len(read.contracts)


def test_what_tests_of_rules_show_is_not_searched() -> None:
    """
    What the conditions of a whole policy leave open, its tests show: each tool, and each contract but two.

    Of a user or a payment that nobody has looked up, the conditions of the same booking tell nothing either.
    """
    folder = Path(__file__).parents[4] / "examples" / "policies"
    read = read_rules(folder / "airline.yaml")
    known = {name for contract in read.contracts for name in said_names(contract)}
    tests = read_policy_tests(str(folder / "airline.tests.yaml"), known)
    found = analyse(read, tests=tests, seconds=30)

    assert (found.findings, found.not_analysed) == ((), ())
    (open_,) = found.undecided
    two = "whether each of 5-user-before-a-booking, 8-payments-of-the-profile ever decides"
    assert open_.startswith(f"{two}, since this is taken either way: args.payment_methods.filter(")
    assert found.decided == len(read.contracts) - 2
    assert analyse(read, seconds=0.3).undecided


def test_too_many_states_are_taken_apart(analysed: Analysed) -> None:
    """Without time for all contracts together, what two of them do to each other is still found."""
    limits = [c("at_most_n_times", {"any_of": ["pay", f"t{n}"]}, 9, id=f"t{n}") for n in range(9)]
    found = analysed(*limits, *PLANTED["a circle"][1], c("at_most_n_times", "*", 50), states=60)

    assert found.undecided
    assert found.decided < 12
    assert "tool-never-allowed" in {finding.kind for finding in found.findings}


def test_nothing_is_ever_called_safe() -> None:
    """The words are those of what was shown."""
    found = analyse(parse_rules({"contracts": [c("never", "x")]}))

    assert "safe" not in str(found.to_dict()).lower()


def test_rows_are_written_for_people_and_as_data() -> None:
    """A row of each kind reads as a sentence, and is JSON."""
    rows = [
        TraceRow(kind="call", tool="pay", args={"amount": 5}, outcome="refused", by=("cap",)),
        TraceRow(kind="wait", seconds=61.0),
        TraceRow(kind="write", entry=("signed_in", True)),
        TraceRow(kind="end", by=("must",)),
    ]

    assert [str(row) for row in rows] == [
        "pay(amount=5) refused by cap",
        "wait 61 s",
        "code writes signed_in = True",
        "the session ends, unmet: must",
    ]
    assert rows[0].to_dict() == {"tool": "pay", "args": {"amount": 5}, "outcome": "refused", "by": ["cap"]}


@pytest.mark.parametrize(
    "file",
    [
        PACKAGE / "cli" / "starter_rules.yaml",
        PACKAGE / "demo" / "rules.yaml",
        Path(__file__).parents[4] / "examples" / "claude_code" / "rules.yaml",
    ],
    ids=lambda file: file.parent.name,
)
def test_our_own_rules_are_clean(file: Path) -> None:
    """The files that people start from have no findings."""
    found = analyse(read_rules(file))

    assert found.findings == ()


@pytest.mark.parametrize(
    "contracts",
    [
        pytest.param(
            [c("existence", "mail", 1), c("at_most_n_times", "mail", 1, key="to")], id="another customer"
        ),
        pytest.param(
            [c("response", "open", "close"), c("at_most_n_times", "close", 1, key="to")], id="an answer"
        ),
        pytest.param(
            [c("existence", "mail", 9), c("at_most_n_times", "mail", 1, key="to")], id="more than are tried"
        ),
        pytest.param(
            [c("existence", "mail", 3), c("at_most_n_times", "mail", 1, key="*")], id="other arguments"
        ),
        pytest.param(
            [
                c("existence", "mail", 4),
                c("at_most_n_times", "mail", 1, key="to"),
                c("never", {"tool": "mail", "matches": "^zz", "field": "to"}),
            ],
            id="one that a pattern leaves",
        ),
        pytest.param(
            [
                c("existence", "mail", 2),
                c("at_most_n_times", "mail", 1, key="to"),
                c("existence", "call", 2),
                c("at_most_n_times", "call", 1, key="to"),
                c("mutually_exclusive", "mail", "call", key="to"),
            ],
            id="two obligations",
        ),
    ],
)
def test_a_customer_whom_nobody_has_seen_can_still_meet_an_obligation(
    contracts: list[dict[str, Any]], analysed: Callable[..., Analysis]
) -> None:
    """Calls that used up the values that are tried have not used up all that there are."""
    kinds = {finding.kind for finding in analysed(*contracts).findings}

    assert not kinds & {"obligation-cannot-be-met", "session-cannot-end-well"}


MAILS = [c("at_most_n_times", "mail", 1, key="to"), c("response", "mail", "note", key="to", id="noted")]


def test_a_trap_that_uses_up_customers_is_found(analysed: Callable[..., Analysis]) -> None:
    """Three of four customers are used up by calls that failed, and two have to be reached."""
    found = analysed(*MAILS, c("max_distinct", "mail", "to", 4), c("existence", "mail", 2, id="mails"))
    (finding,) = found.findings

    assert finding.kind == "session-cannot-end-well"
    assert finding.witness is not None
    assert [row.outcome for row in finding.witness[:-1]] == ["failed"] * 3
    assert found.undecided == ()


def test_a_trap_that_may_use_up_more_customers_than_are_tried_is_open(
    analysed: Callable[..., Analysis],
) -> None:
    found = analysed(*MAILS, c("max_distinct", "mail", "to", 5), c("existence", "mail", 3, id="mails"))

    assert found.findings == ()
    assert ["more values of a key" in what for what in found.undecided] == [True]


def test_a_limit_on_more_values_than_are_tried_is_open(analysed: Callable[..., Analysis]) -> None:
    """What would take nine customers is not called decided."""
    found = analysed(c("existence", "mail", 9), c("at_most_n_times", "mail", 1, key="to"))

    assert any("more values of a key" in what for what in found.undecided)


@pytest.mark.parametrize(
    ("contracts", "open_", "decided"),
    [
        pytest.param(
            [c("at_most_n_times", "pay", 2, id="two"), c("at_most_n_times", "pay", 3, id="three")],
            f"whether each of three ever decides, since {FEW_VALUES}",
            2,
            id="a contract",
        ),
        pytest.param(
            [
                c("must_precede", "ask", "read", id="asked"),
                c("must_precede", "pay", "read", id="paid"),
                c("at_most_n_times", {"any_of": ["ask", "pay", "read"]}, 2, id="two"),
            ],
            f"whether calls of 'read' are ever let through: {FEW_VALUES}",
            4,
            id="a tool",
        ),
    ],
)
def test_what_more_customers_might_let_happen_is_open(
    analysed: Callable[..., Analysis], contracts: list[dict[str, Any]], open_: str, decided: int
) -> None:
    """What counts over all customers is not called impossible where those that are tried are used up."""
    assert analysed(*contracts).findings

    found = analysed(*contracts, c("must_precede", "look", "pay", key="k"))

    assert (found.findings, found.undecided, found.decided) == ((), (open_,), decided)


def test_a_limit_that_takes_more_customers_than_it_counts_is_open_until_a_test_shows_it() -> None:
    """Two customers are used up before the first payment, and each payment takes another one."""
    contracts = [
        c("must_precede", "look", "pay"),
        c("must_precede", "ask", "pay"),
        c("never_after", "pay", "look", key="k"),
        c("never_after", "pay", "ask", key="k"),
        c("never_after", "ask", "look", key="k"),
        c("at_most_n_times", "pay", 1, key="k"),
        c("at_most_n_times", "pay", 2, id="two"),
    ]
    calls = [("look", "A"), ("ask", "B"), ("pay", "C"), ("pay", "D"), ("pay", "E")]
    shows = {"name": "it", "calls": [{"tool": tool, "args": {"k": key}} for tool, key in calls]}
    document = Document(data={"contracts": contracts, "tests": [shows]})
    read, tests = rules_of(document), policy_tests_of(document, {"two"})

    assert analyse(read).undecided == (f"whether each of two ever decides, since {FEW_VALUES}",)
    assert (analyse(read).decided, analyse(read, tests=tests).decided) == (6, 7)
    assert analyse(read, tests=tests).undecided == ()


def test_a_refusal_makes_no_halt_idle(analysed: Callable[..., Analysis]) -> None:
    """A contract that ends the session decides more than one that refuses the same call; not the reverse."""
    halts = c("at_most_n_times", "pay", 1, id="halts", on_violation="halt")
    refuses = c("at_most_n_times", "pay", 1, id="refuses")

    for contracts in ([halts, refuses], [refuses, halts]):
        (found,) = analysed(*contracts).findings
        assert (found.kind, found.contracts[0].name) == ("contract-implied-by", "refuses")


def test_only_those_are_blamed_for_a_tool_that_is_shut_who_shut_it(analysed: Callable[..., Analysis]) -> None:
    """A contract that refuses some calls of a tool, which others refuse anyway, is not to blame."""
    found = analysed(
        c("must_precede", "log_in", "log_out", id="in-first"),
        c("never_after", "log_out", "log_in", id="stay"),
        c("at_most_n_times", "log_in", 1, id="once"),
        c("must_precede", "read", "log_out", id="read-first"),
    )

    (shut,) = (finding for finding in found.findings if finding.kind == "tool-never-allowed")
    assert [contract.name for contract in shut.contracts] == ["in-first", "stay"]


def test_of_a_tool_that_is_shut_its_limits_are_not_called_idle(analysed: Callable[..., Analysis]) -> None:
    """Once the two that contradict each other do not, the limits are needed."""
    limits = [
        c("at_most_n_times", "dispense", 1, key="order", id="once"),
        c("at_most_n_times", "dispense", 2, key="patient", within=3600, id="two-an-hour"),
    ]
    found = analysed(
        c("must_precede", "sign", "dispense", key="order", id="signed"),
        c("mutually_exclusive", "sign", "dispense", key="order", id="four-eyes"),
        *limits,
    )
    banned = analysed(c("never", "dispense", id="no"), *limits)

    assert [finding.kind for finding in found.findings] == ["tool-never-allowed"]
    # Where it is shut on purpose, they are.
    assert {finding.contracts[0].name for finding in banned.findings} == {"once", "two-an-hour"}


def test_what_no_session_shows_has_a_reason_in_large_files_too(analysed: Callable[..., Analysis]) -> None:
    """Asked one by one, a contract is open because of a part of a condition that is taken either way."""
    many = [c("must_precede", f"step_{n}", "pay", id=f"after-{n}") for n in range(7)]
    found = analysed(
        *many, c("requires", "pay", "args.a.b.all(i, i in args.c) && size(args.a.b) > 70", id="open")
    )

    assert found.undecided
    assert all("taken either way: args.a.b.all" in what for what in found.undecided)
