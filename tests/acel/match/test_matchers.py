"""Which calls a contract is about."""

from __future__ import annotations

import functools
import pickle
import time
from typing import Any

import pytest

from openbox_agentrt.acel import (
    ContentMatch,
    PatternError,
    Session,
    any_of,
    at_most_n_times,
    matching,
    must_precede,
    never,
    never_after,
    only,
    rate_limit,
    suspicious_names,
)
from openbox_agentrt.acel.match.matchers import FieldPattern, label
from openbox_agentrt.acel.match.names import normal_name
from openbox_agentrt.acel.match.patterns import compile_later
from openbox_agentrt.acel.session import engine_of


def bans(matcher: Any, tool: str, **args: Any) -> bool:
    """Whether a ban on `matcher` refuses a call."""
    return not Session(contracts=[at_most_n_times(matcher, 0)]).reserve(tool, args).allowed


@pytest.mark.parametrize(
    ("pattern", "meant", "not_meant"),
    [
        ("db_*", ["db_", "db_drop", "db_a_b"], ["db", "xdb_drop", "DB_drop"]),
        ("*", ["x", "", "a\nb"], []),
        ("?", ["x", "é"], ["", "xy"]),
        ("get_?_*", ["get_a_", "get_b_c"], ["get__a", "get_ab_c"]),
        ("a[b]*", ["a[b]", "a[b]c"], ["ab", "abc"]),
        ("a.b*", ["a.bc"], ["axbc"]),
    ],
)
def test_patterns_over_names(pattern: str, meant: list[str], not_meant: list[str]) -> None:
    """Only * and ? are special, and the whole name has to fit."""
    assert [tool for tool in meant + not_meant if bans(pattern, tool)] == meant


def test_any_of_several() -> None:
    """Names, patterns and matchers, also inside each other."""
    matcher = any_of("a", "db_*", any_of(matching("sh", "rm"), lambda tool, args: tool == "f"))

    assert [tool for tool in ("a", "db_x", "f", "b") if bans(matcher, tool)] == ["a", "db_x", "f"]
    assert bans(matcher, "sh", command="rm -r")
    assert not bans(matcher, "sh", command="ls")
    assert matcher("db_x", {})
    assert not matcher("sh", {"command": "ls"})
    assert str(matcher).startswith("any_of(a, db_*, any_of(sh(command~/rm/), ")
    assert repr(matcher) == f"<{matcher}>"


def test_any_of_names_is_one_tool_s_business() -> None:
    """Calls of other tools do not even look at it."""
    session = Session(contracts=[at_most_n_times(any_of("a", "b"), 1)])

    assert engine_of(session).store.book.plan("c").guards == ()
    session.call("a")
    assert not session.reserve("b").allowed


@pytest.mark.parametrize("bad", [[], [""], [5], [None]])
def test_any_of_checks_what_it_is_given(bad: list[Any]) -> None:
    """At least one, and each of them a name or callable."""
    with pytest.raises((ValueError, TypeError)):
        any_of(*bad)


@pytest.mark.parametrize(
    ("command", "matches"),
    [
        ("git commit -m x", True),
        ("GIT COMMIT", True),
        ("x; git commit", True),
        ("git  commit", False),
        (["git commit"], True),
        (None, False),
        (42, False),
    ],
)
def test_matching_searches_the_text_of_an_argument(command: Any, matches: bool) -> None:
    """Whatever the case, anywhere in it; what is no text is searched as its text."""
    matcher = matching("Bash", "git commit")

    assert matcher("Bash", {"command": command}) is matches
    assert bans(matcher, "Bash", command=command) is matches


def test_matching_a_path_and_a_pattern_of_tools() -> None:
    """As everywhere else."""
    matcher = matching("db_*", "drop", field="query.text")

    assert bans(matcher, "db_run", query={"text": "DROP TABLE"})
    assert not bans(matcher, "db_run", query={"text": "select"})
    assert not bans(matcher, "db_run", query="DROP TABLE")
    assert not bans(matcher, "other", query={"text": "DROP TABLE"})


@pytest.mark.parametrize("pattern", ["(", "(?=x)", r"(a)\1", "(?<!x)y", "a{100000}", "\ud800", "[z-a]", "*"])
def test_a_pattern_that_cannot_be_searched_in_linear_time(pattern: str) -> None:
    """It is an error when the contract is built, and it names the pattern."""
    with pytest.raises(PatternError) as caught:
        matching("Bash", pattern)

    assert caught.value.pattern == pattern
    assert repr(pattern) in str(caught.value)
    assert caught.value.problem
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_pattern_must_be_text() -> None:
    """A number is not one."""
    with pytest.raises(TypeError, match="a pattern must be text"):
        matching("Bash", 5)  # type: ignore[arg-type]  # that is what is refused


def test_no_argument_can_stall_the_gate() -> None:
    """The pattern that takes a backtracking engine forever takes a moment here."""
    session = Session(contracts=[at_most_n_times(matching("Bash", "(a+)+$"), 0)])
    began = time.perf_counter()

    assert session.reserve("Bash", {"command": "a" * 100_000 + "!"}).allowed

    assert time.perf_counter() - began < 5


def test_text_that_is_no_unicode_is_a_fault() -> None:
    """It cannot be searched, so the ban holds."""
    assert bans(matching("Bash", "rm"), "Bash", command="\ud800")


def test_equal_patterns_share_their_memory() -> None:
    """Two contracts over the same pattern count its calls once."""
    session = Session(
        contracts=[at_most_n_times(matching("B", "x"), 1), at_most_n_times(matching("B", "x"), 5)]
    )

    session.call("B", {"command": "x"})

    assert len({id(guard.cell) for guard in session.reserve("B", {"command": "x"}).extra.guards}) == 1  # type: ignore[union-attr]  # such contracts have it
    assert FieldPattern("x", "a") == FieldPattern("x", "a")
    assert FieldPattern("x", "a") != FieldPattern("y", "a")
    assert FieldPattern("x", "a") != "x"
    assert pickle.loads(pickle.dumps(FieldPattern("x", "a"))) == FieldPattern("x", "a")


def test_a_predicate_is_asked_once_per_call() -> None:
    """However many contracts use the matcher."""
    asked = []

    def predicate(args: dict[str, Any]) -> bool:
        asked.append(args)
        return True

    matcher = ContentMatch("x", predicate)
    session = Session(contracts=[at_most_n_times(matcher, n) for n in (5, 6, 7)])

    session.call("x")

    assert len(asked) == 1


def test_a_subclass_of_content_match_is_asked_its_own_way() -> None:
    """What it overrides counts."""

    class Never(ContentMatch):
        def __call__(self, tool: str, args: dict[str, Any]) -> bool:
            return False

    assert not bans(Never("x", lambda args: True), "x")


@pytest.mark.parametrize("bad", ["", 5, None, [], b"x"])
def test_what_is_no_matcher(bad: Any) -> None:
    """It is an error when the contract is built."""
    with pytest.raises((TypeError, ValueError)):
        must_precede(bad, "b")
    with pytest.raises((TypeError, ValueError)):
        ContentMatch(bad, lambda args: True)
    with pytest.raises(TypeError):
        ContentMatch("x", bad)


def a_function(tool: str, args: dict[str, Any]) -> bool:
    return tool == "x"


def test_a_function_is_written_by_its_name() -> None:
    """Not by its address, which says nothing and is another one tomorrow."""
    named = [at_most_n_times(fn, 0).spec for fn in (a_function, functools.partial(a_function))]

    assert named == ["at_most_n_times(a_function, n=0)", "at_most_n_times(partial, n=0)"]
    assert label(lambda tool, args: True) == "<lambda>"


@pytest.mark.parametrize("name", ["café", "cafe\u0301"])
def test_one_name_in_two_spellings_is_one_name(name: str) -> None:
    """Names are compared in NFC, wherever they come from."""
    session = Session(contracts=[at_most_n_times("café", 1), never_after("x", "cafe\u0301")])

    assert session.reserve(name).tool == "café"
    assert not session.reserve("cafe\u0301").allowed
    assert not session.reserve("x").allowed
    session.register_tool("cafe\u0301", precondition=lambda s: False)
    assert session.reserve("café").violations[0].kind == "precondition"
    assert bans("caf?", "cafe\u0301")


def test_names_are_not_folded_further() -> None:
    """`Pay` and `pay` are two tools; a session that must not meet both refuses what it does not know."""
    session = Session(contracts=[at_most_n_times("pay", 0)])

    assert session.reserve("Pay").allowed


@pytest.mark.parametrize(
    ("names", "reports"),
    [
        (["pay", "refund"], []),
        (["pay", "pay"], []),
        (["pay", "Pay"], [("Pay", "case", "pay")]),
        (["pay", "рay"], [("рay", "mixed-scripts", None), ("рay", "look-alike", "pay")]),
        (["scope", "ѕсоре"], [("ѕсоре", "look-alike", "scope")]),
        (["list1", "listl"], [("listl", "look-alike", "list1")]),
        (["modern", "modem"], [("modem", "look-alike", "modern")]),
        (["pay", "pay\u200b"], [("pay\u200b", "invisible", None), ("pay\u200b", "look-alike", "pay")]),
        (["a\tb"], [("a\tb", "control", None)]),
        (["\ud800"], [("\ud800", "control", None)]),
        ([""], [("", "empty", None)]),
        (["cafe\u0301"], [("cafe\u0301", "not-nfc", None)]),
        (["日本_ひらがな"], []),
        (["straße"], []),
    ],
)
def test_names_that_are_not_what_they_look_like(
    names: list[str], reports: list[tuple[str, str, str | None]]
) -> None:
    """For `validate`, and for whoever reviews a set of tools."""
    assert [(r.name, r.problem, r.other) for r in suspicious_names(names)] == reports


def test_a_report_is_readable() -> None:
    """What is odd about a name is often not to be seen, so the name is escaped."""
    (invisible, twin) = suspicious_names(["pay", "pay\u200b"])

    assert invisible.describe() == r"name 'pay\u200b' contains a character that is not shown"
    assert twin.describe() == r"name 'pay\u200b' looks like 'pay'"
    assert normal_name("pay") == "pay"


def test_unknown_tools_can_be_refused() -> None:
    """What no contract, registration or list names is refused; a function that is asked names nothing."""
    session = Session(
        contracts=[
            must_precede("a", any_of("b", matching("c", "x"))),
            at_most_n_times("db_*", 5),
            at_most_n_times(lambda tool, args: True, 100),
            # Nor does a pattern that every name fits.
            never_after("*", "done"),
            rate_limit(any_of("?*", matching("*", "x")), 60, 60),
        ],
        unknown_tools="refuse",
        tools=["d", "cafe\u0301"],
    )
    session.register_tool("e")
    session.call("a")

    known = ["a", "b", "c", "db_x", "d", "café", "e", "run_started", "user_prompt", "llm_call", "run_ended"]
    assert [tool for tool in known if not session.reserve(tool).allowed] == []
    for tool in ("f", "A", "b\u200b", "db"):
        reservation = session.reserve(tool)
        assert reservation.refusal is not None
        assert reservation.violations[0].kind == "session"
        assert reservation.refusal.broken[0].contract == "the tool is known to the session"


def test_one_known_tool_given_as_text_is_one_tool() -> None:
    """Not its letters."""
    session = Session(unknown_tools="refuse", tools="pay")

    assert session.reserve("pay").allowed
    assert not session.reserve("p").allowed


def test_a_pattern_that_was_accepted_before_is_compiled_when_it_is_searched_for() -> None:
    """What it finds is the same."""
    compile_later(["accepted-[0-9]+"])

    matcher = matching("Bash", "accepted-[0-9]+")

    assert matcher("Bash", {"command": "Accepted-7"})
    assert not matcher("Bash", {"command": "accepted-"})


def test_a_pattern_that_is_not_accepted_after_all_refuses() -> None:
    """Fail-closed: whoever said that it was accepted is wrong, and nothing passes for it."""
    compile_later(["(accepted"])

    assert bans(matching("Bash", "(accepted"), "Bash", command="ls")


class Lying(str):
    """A text that gives itself out as another wherever it is asked."""

    __slots__ = ()

    def __str__(self) -> str:
        return "ls"

    def encode(self, *_: Any, **__: Any) -> bytes:
        return b"ls"


@pytest.mark.parametrize("args", [{"command": Lying("git push")}, {"command": [Lying("git push")]}])
def test_a_text_is_what_is_in_it_and_not_what_its_class_says(args: Any) -> None:
    banned = Session(contracts=[never(matching("Bash", "push"))])
    only_ls = Session(contracts=[only(any_of(matching("Bash", "^ls$"), "other"))])

    assert not banned.reserve("Bash", args).allowed
    assert not only_ls.reserve("Bash", args).allowed
