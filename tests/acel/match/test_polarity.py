"""What forbids takes a call for one that is meant if one of its texts is; what allows needs all of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbox_agentrt.acel import (
    Session,
    alternate_precedence,
    any_of,
    at_most_n_times,
    cannot_follow_without,
    chain_precedence,
    existence,
    init,
    matching,
    must_precede,
    mutually_exclusive,
    never,
    never_after,
    not_matching,
    only,
    required_before_session_end,
    response,
)
from openbox_agentrt.acel.contracts.template import Template
from openbox_agentrt.acel.match.matchers import ContentMatch
from tests.acel.match.test_texts import Opaque

INSIDE = matching("send", r"@example\.com$", field="to")
OUTSIDE = not_matching("send", r"@example\.com$", field="to")
CLEAN = not_matching("send", "evil", field="to")

# Some of it is inside, and some of it is not.
MIXED: list[Any] = [
    ["eve@evil.io", "ann@example.com"],
    ["ann@example.com", "eve@evil.io"],
    [["eve@evil.io"], "ann@example.com"],
    {"cc": "eve@evil.io", "to": "ann@example.com"},
    {"eve@evil.io": "ann@example.com"},
    ("eve@evil.io", "ann@example.com"),
    {"eve@evil.io", "ann@example.com"},
    ["ann@example.com", 7],
    ["ann@example.com", None],
    ["ann@example.com", b"\xff"],
    ["ann@example.com", Opaque()],
    [["ann@example.com"], {"bcc": ["eve@evil.io"]}],
]


def ends_unmet(contract: Template, to: Any) -> bool:
    session = Session(contracts=[contract])
    session.call("send", {"to": to})
    return bool(session.end_session())


def then(contract: Template, *calls: tuple[str, dict[str, Any]]) -> bool:
    """Whether the last call is allowed after the others have succeeded."""
    session = Session(contracts=[contract])
    for tool, args in calls[:-1]:
        session.call(tool, args)
    return session.reserve(*calls[-1]).allowed


@pytest.mark.parametrize("to", MIXED)
def test_what_allows_needs_every_text(to: Any) -> None:
    """One good text opens nothing for the others beside it."""
    mail = ("send", {"to": to})

    assert not then(only(INSIDE), mail)
    assert not then(never("send", except_=INSIDE), mail)
    assert not then(never(OUTSIDE), mail)
    assert not then(must_precede(INSIDE, "pay"), mail, ("pay", {}))
    assert not then(cannot_follow_without("pay", INSIDE), mail, ("pay", {}))
    assert not then(alternate_precedence(INSIDE, "pay"), mail, ("pay", {}))
    assert not then(chain_precedence(INSIDE, "pay"), mail, ("pay", {}))
    assert not then(init(INSIDE), mail)
    assert ends_unmet(existence(INSIDE), to)
    assert ends_unmet(required_before_session_end(INSIDE), to)
    session = Session(contracts=[response("order", INSIDE)])
    session.call("order")
    session.call("send", {"to": to})
    assert session.end_session()


@pytest.mark.parametrize("to", MIXED[:3], ids=repr)
def test_what_forbids_needs_one(to: Any) -> None:
    """Wherever it stands, and among whatever else."""
    evil, mail = matching("send", "evil", field="to"), ("send", {"to": to})

    assert not then(never(evil), mail)
    assert not then(only(any_of("pay", CLEAN)), mail)
    assert not then(never("send", except_=CLEAN), mail)
    assert not then(at_most_n_times(evil, 1), mail, mail)
    assert not then(never_after("pay", evil), mail, ("pay", {}))
    assert not then(mutually_exclusive(evil, "pay"), mail, ("pay", {}))
    assert ends_unmet(response(evil, "pay"), to)


@pytest.mark.parametrize(
    ("value", "forbidden", "allowed"),
    [
        pytest.param({}, False, False, id="missing"),
        pytest.param({"to": None}, False, False, id="null"),
        pytest.param({"to": []}, False, False, id="empty"),
        pytest.param({"to": Opaque()}, True, False, id="unreadable"),
        pytest.param({"to": "ann@example.com"}, True, True, id="there"),
    ],
)
def test_what_is_not_there_allows_nothing(value: dict[str, Any], forbidden: bool, allowed: bool) -> None:
    """A pattern is in no argument that is missing, and an unreadable one may hold it."""
    assert then(never(INSIDE), ("send", value)) is not forbidden
    assert then(only(INSIDE), ("send", value)) is allowed
    assert then(never(OUTSIDE), ("send", value)) is allowed
    # What is not there is not known to be clean: the tool may read it under another name.
    assert then(only(CLEAN), ("send", value)) is (allowed or value == {"to": []})


@pytest.mark.parametrize(
    ("people", "allowed"),
    [
        pytest.param([{"mail": "a@example.com"}, {"mail": "b@example.com"}], True, id="all"),
        pytest.param([{"mail": "a@example.com"}, {"mail": "e@evil.io"}], False, id="one is outside"),
        pytest.param([{"mail": "a@example.com"}, {"email": "e@evil.io"}], False, id="one has none"),
        pytest.param([], False, id="nobody"),
    ],
)
def test_every_element_of_a_path(people: list[dict[str, str]], allowed: bool) -> None:
    """What a path with an asterisk means is many texts too, also where one of them is missing."""
    inside = matching("send", r"@example\.com$", field="people.*.mail")

    assert then(only(inside), ("send", {"people": people})) is allowed
    assert then(must_precede(inside, "pay"), ("send", {"people": people}), ("pay", {})) is allowed


def test_a_limit_and_a_prerequisite_do_not_share_what_they_count() -> None:
    """A call that a limit counts because it may be one is no prerequisite because of it."""
    session = Session(contracts=[at_most_n_times(INSIDE, 2), must_precede(INSIDE, "pay")])

    session.call("send", {"to": ["eve@evil.io", "ann@example.com"]})
    session.call("send", {"to": Opaque()})

    assert not session.reserve("pay").allowed
    assert not session.reserve("send", {"to": "ann@example.com"}).allowed


def test_what_ran_is_read_in_the_same_way() -> None:
    """An edit that adds a recipient is no prerequisite any more."""
    session = Session(contracts=[must_precede(INSIDE, "pay")])

    call = session.reserve("send", {"to": ["ann@example.com"]})
    call.commit(args={"to": ["ann@example.com", "eve@evil.io"]})

    assert not session.reserve("pay").allowed


LINE = matching("shell", "^(ls|cat) ", line=True)


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        pytest.param("ls -l", True, id="text"),
        pytest.param(["ls", "-l"], True, id="words"),
        pytest.param(["head", "-n", 5], False, id="other words"),
        pytest.param([["ls", "-l"], ["cat", "x"]], False, id="two lists are no line"),
        pytest.param(["ls", None], False, id="null is no word"),
        pytest.param([], False, id="nothing"),
    ],
)
def test_a_command_line_in_words(command: Any, allowed: bool) -> None:
    """Where the rules say that a list is a line, its words allow together."""
    assert then(only(LINE), ("shell", {"command": command})) is allowed
    assert not then(only(matching("shell", "^(ls|cat) ")), ("shell", {"command": ["ls", "-l"]}))


texts = st.sampled_from(["ann@example.com", "eve@evil.io", "", "bob@example.com"])


@given(st.recursive(texts, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=6))
def test_what_must_be_may_be(value: Any) -> None:
    """What is allowed by a pattern would be forbidden by it, and its negation means the rest."""
    for matcher in (INSIDE, OUTSIDE):
        assert isinstance(matcher, ContentMatch)
        must, may = (
            Session(contracts=[only(matcher)]).reserve("send", {"to": value}).allowed,
            not Session(contracts=[never(matcher)]).reserve("send", {"to": value}).allowed,
        )
        assert may or not must
    inside, outside = (
        Session(contracts=[only(matcher)]).reserve("send", {"to": value}).allowed
        for matcher in (INSIDE, OUTSIDE)
    )
    assert not (inside and outside)
