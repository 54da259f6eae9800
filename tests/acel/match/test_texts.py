"""A pattern is searched for in every text of an argument, and never in Python's way of printing it."""

from __future__ import annotations

import dataclasses
import json
import uuid
from collections import UserDict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openbox_agentrt.acel import Session, any_of, at_most_n_times, at_most_total, max_distinct, must_precede
from openbox_agentrt.acel.match.matchers import ToolMatcher, matching
from openbox_agentrt.acel.match.patterns import PatternError, Searcher, compile_pattern, compile_search
from openbox_agentrt.acel.match.texts import texts_of


@dataclasses.dataclass
class Command:
    cmd: str


class Opaque:
    """An object that shows no fields."""

    def __str__(self) -> str:
        return "harmless"


def deep(depth: int, value: Any = "rm -rf") -> Any:
    for _ in range(depth):
        value = [value]
    return value


def allowed(matcher: ToolMatcher, value: Any) -> bool:
    return Session(contracts=[at_most_n_times(matcher, 0)]).reserve("t", {"command": value}).allowed


FOUND = [
    pytest.param(r"^rm -rf", ["rm", "-rf", "/"], id="words of a list"),
    pytest.param(r"^rm -rf", {"argv": ["rm", "-rf"]}, id="words of a list in an object"),
    pytest.param(r"rm\s+-rf", ["bash", "-c", "rm\t-rf /"], id="a tab inside a list"),
    pytest.param(r"^rm ", ["rm -rf /"], id="an anchor at the beginning"),
    pytest.param(r"-rf$", ["rm", "-rf"], id="an anchor at the end"),
    pytest.param("import os\nos", {"edits": [{"new": "import os\nos.remove"}]}, id="a line break"),
    pytest.param(r'"role": *"admin"', {"role": "admin"}, id="JSON"),
    pytest.param(r'"role":"admin"', {"role": "admin"}, id="JSON without blanks"),
    pytest.param("passwörd", {"PASSWÖRD": 1}, id="a name"),
    pytest.param("^8080$", [{"port": 8080}], id="a number"),
    pytest.param("^true$", {"force": True}, id="a boolean"),
    pytest.param("^it's$", ["it's"], id="a quote"),
    pytest.param("rm -rf", Command("rm -rf"), id="a dataclass"),
    pytest.param("rm -rf", UserDict({"cmd": "rm -rf"}), id="a mapping of another class"),
    pytest.param("rm -rf", [b"rm -rf"], id="bytes that are text"),
    pytest.param("^1{8}-", [uuid.UUID(int=0x11111111 << 96)], id="an id"),
    pytest.param("^rm$", {"rm", "ls"}, id="a set"),
]
NOT_FOUND = [
    pytest.param("'", ["rm", "-rf"], id="quotes of Python"),
    pytest.param("None", [None, {"a": None}], id="nothing"),
    pytest.param("UUID", [uuid.UUID(int=1)], id="the name of a class"),
]


@pytest.mark.parametrize(("pattern", "value"), FOUND)
def test_what_is_found(pattern: str, value: Any) -> None:
    """Wherever it stands in the argument."""
    assert not allowed(matching("t", pattern), value)
    assert allowed(matching("t", "something else"), value)


@pytest.mark.parametrize(("pattern", "value"), NOT_FOUND)
def test_what_is_only_python_s_is_not_found(pattern: str, value: Any) -> None:
    """A pattern about quotes means quotes."""
    assert allowed(matching("t", pattern), value)


@given(
    st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
)
def test_every_text_is_among_the_texts(value: Any) -> None:
    """With the JSON that a tool may make of it."""
    texts = list(texts_of(value, "x"))

    def leaves(part: Any) -> list[str]:
        if isinstance(part, dict):
            return [*part, *(leaf for inner in part.values() for leaf in leaves(inner))]
        if isinstance(part, list):
            return [leaf for inner in part for leaf in leaves(inner)]
        return [part] if isinstance(part, str) else [str(part)]

    assert set(leaves(value)) <= set(texts)
    if isinstance(value, list | dict):
        assert json.dumps(value, ensure_ascii=False) in texts


def cyclic() -> list[Any]:
    inner: list[Any] = []
    inner.append(inner)
    return inner


UNSEEN = [
    pytest.param(deep(70), "too deep", id="too deep"),
    pytest.param(Opaque(), "opaque", id="opaque"),
    pytest.param([{"a": Opaque()}], "opaque", id="opaque inside"),
    pytest.param(cyclic(), "cycle", id="inside itself"),
    pytest.param("rm".encode("utf-16"), "opaque", id="bytes that are no text"),
]


@pytest.mark.parametrize(("value", "why"), UNSEEN)
def test_what_cannot_be_looked_into_is_a_fault(value: Any, why: str) -> None:
    """It is there, so it is not missing: a ban bans, a prerequisite is none, and the record says why."""
    ban = Session(contracts=[at_most_n_times(matching("t", "x"), 0)])
    refused = ban.reserve("t", {"command": value})
    assert refused.refusal is not None
    assert refused.refusal.broken[0].fault == f"command cannot be looked into ({why})"

    order = Session(contracts=[must_precede(matching("t", "x"), "then")])
    order.call("t", {"command": value})
    assert not order.reserve("then").allowed


def test_a_path_through_it_is_a_fault() -> None:
    """Whether the field is there, nobody knows."""
    session = Session(
        contracts=[
            at_most_n_times(matching("t", "x", field="command.cmd"), 0),
            at_most_n_times("t", 5, key="command.id"),
            at_most_total("t", "command.amount", 5),
            max_distinct("t", "command", 5),
        ]
    )

    refusal = session.reserve("t", {"command": Opaque()}).refusal

    assert refusal is not None
    assert len(refusal.broken) == 4
    assert {str(broken.fault).partition(" cannot ")[2] for broken in refusal.broken} == {
        "be looked into (opaque)"
    }


def test_what_is_found_beside_it_is_found() -> None:
    """A plain yes needs no fault, and one matcher's yes outweighs another's fault."""
    value = [Opaque(), "rm -rf"]
    session = Session(contracts=[at_most_n_times(matching("t", "rm -rf"), 0)])

    refusal = session.reserve("t", {"command": value}).refusal

    assert refusal is not None
    assert refusal.broken[0].fault is None
    assert not allowed(any_of(matching("t", "rm"), "t"), value)


def test_a_field_of_an_object_is_found() -> None:
    """By path, as in the data that a tool makes of it."""
    assert not allowed(matching("t", "rm -rf", field="command.cmd"), Command("rm -rf /"))
    assert not allowed(matching("t", "rm -rf", field="command.1.cmd"), [1, Command("rm -rf /")])


def test_a_missing_field_is_no_match() -> None:
    """As with acel-core: nothing is there that could be banned."""
    assert allowed(matching("t", "", field="other"), "x")
    assert allowed(matching("t", "", field="command.x"), {"y": 1})
    assert allowed(matching("t", ""), None)


PIECES = [
    "a",
    "b",
    " ",
    ".",
    "^",
    "$",
    "\\b",
    "\\s",
    "[^a]",
    "[^ ]",
    "+",
    "*",
    "|",
    "(a)",
    "\\A",
    "\\z",
    "(?s)",
]
PATTERNS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join)


@given(PATTERNS, st.lists(st.text("ab \n", max_size=4), max_size=6))
def test_many_texts_are_searched_as_each_of_them_is(pattern: str, texts: list[str]) -> None:
    """Searching them together is quicker, and finds neither more nor less."""
    try:
        searcher = Searcher(pattern)
    except PatternError:
        return

    assert searcher.finds(texts) is any(searcher.search(text) is not None for text in texts)


@given(PATTERNS, st.text("aAbk\u212as\u017f \n", max_size=6))
def test_whether_a_pattern_is_found_is_what_a_search_for_its_place_says(pattern: str, text: str) -> None:
    """Asking only whether it is there is quicker, and no other answer."""
    try:
        found = compile_pattern(pattern).search(text)
    except PatternError:
        return

    assert (compile_search(pattern)(text) is not None) is (found is not None)


PLAIN = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "^"]),
    st.text("aKs. -/", min_size=1, max_size=3).map(lambda word: word.replace(".", "\\.").replace("/", "\\/")),
    st.sampled_from(["", "$"]),
)


@settings(max_examples=400)
@given(PLAIN, st.text("aAkKsS\u212a\u017f./- \n\0", max_size=5))
def test_a_plain_word_is_found_where_re2_finds_it(pattern: str, text: str) -> None:
    """Python looks for it in text that is ASCII; a sign of Kelvin is a k, and only RE2 knows."""
    found = compile_pattern(pattern).search(text)

    assert (compile_search(pattern)(text) is not None) is (found is not None)


@pytest.mark.parametrize("pattern", ["a", "^rm -rf", r"\.env$", r"^/etc/passwd$", "DROP TABLE"])
def test_a_plain_word_is_looked_for_without_re2(pattern: str) -> None:
    """To call RE2 takes longer than to search a short text."""
    assert compile_search(pattern).__module__ == Searcher.__module__


@pytest.mark.parametrize(
    "pattern", ["a.b", "a|b", r"\bat", r"\d", "a*", "[ab]", "(a)", "a{2}", "^", "$", "^$", "é"]
)
def test_what_is_no_plain_word_is_left_to_re2(pattern: str) -> None:
    """There is one engine of patterns."""
    assert compile_search(pattern).__module__ != Searcher.__module__


def test_a_pattern_that_is_too_large_to_ask_only_whether_is_searched_for() -> None:
    """RE2 knows it, so rules may have it."""
    search = compile_search(r"(?:\pL+\pN+){200}")

    assert search("a1" * 200) is not None
    assert search("a1" * 199) is None


@pytest.mark.parametrize(
    ("field", "args"),
    [
        pytest.param("*", {"is_admin": True}, id="an argument's name"),
        pytest.param("*", {"options": {"is_admin": True}}, id="a name inside an argument"),
        pytest.param("options.*", {"options": {"is_admin": True}}, id="a name in an object"),
        pytest.param(
            "rows.*.*", {"rows": [{"id": 1}, {"is_admin": True}]}, id="a name in an object of a list"
        ),
        pytest.param("options", {"options": {"is_admin": True}}, id="the whole object"),
    ],
)
def test_where_a_match_forbids_names_are_texts(field: str, args: dict[str, Any]) -> None:
    """Whatever depth they stand at; a name is chosen by whoever calls."""
    session = Session(contracts=[at_most_n_times(matching("t", "admin", field=field), 0)])

    assert not session.reserve("t", args).allowed
    assert session.reserve("t", {"options": {"other": 1}, "rows": [{"id": 1}]}).allowed


def test_where_a_match_allows_the_names_of_arguments_are_none_of_its_texts() -> None:
    """They are the tool's, and the values are what has to have the pattern."""
    session = Session(contracts=[must_precede(matching("check", "ok", field="*"), "pay")])

    session.reserve("check", {"one": "ok", "other": "ok"}).commit()

    assert session.reserve("pay", {}).allowed
