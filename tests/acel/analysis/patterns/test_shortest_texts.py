"""Which patterns one text can have together, against RE2 itself."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbox_agentrt.acel.analysis.budget import Budget
from openbox_agentrt.acel.analysis.patterns.automaton import UnknownPatternError, of_name, of_pattern
from openbox_agentrt.acel.analysis.patterns.shortest_texts import alike_texts, combinations
from openbox_agentrt.acel.match.matchers import name_matches
from openbox_agentrt.acel.match.patterns import compile_pattern

PARTS = ["rm", "-rf", "^git", "push$", r"\bls\b", "(a|b)+", "[^a-z]", r"\d{2}", ".*", "x?y", r"\Bz", "é"]

SOME = ["rm", "^git", "push$", r"\bls\b", "[^a-z]", r"\d{2}"]
TOGETHER = combinations([of_pattern(pattern) for pattern in SOME]).texts


def _found(patterns: list[str], text: str) -> tuple[bool, ...]:
    return tuple(compile_pattern(pattern).search(text) is not None for pattern in patterns)


@pytest.mark.parametrize("patterns", list(itertools.combinations(PARTS, 2)))
def test_a_text_has_the_patterns_that_it_is_said_to_have(patterns: tuple[str, str]) -> None:
    """RE2 finds in each text what the search built it for."""
    found = combinations([of_pattern(pattern) for pattern in patterns])

    assert found.whole
    assert all(_found(list(patterns), text) == hits for hits, text in found.texts.items())


@given(text=st.text(alphabet="rm-f gitpushlsabxyz09AE", max_size=12))
def test_no_combination_is_missed(text: str) -> None:
    """What RE2 finds together in any text is among the combinations."""
    assert _found(SOME, text) in TOGETHER


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        pytest.param(["a^"], {(False,)}, id="an anchor behind a letter"),
        pytest.param(["$a"], {(False,)}, id="an anchor before a letter"),
        pytest.param(["^a", "^b"], {(False, False), (True, False), (False, True)}, id="two beginnings"),
        pytest.param([".*"], {(True,)}, id="everywhere"),
        pytest.param(["ab", "b"], {(False, False), (False, True), (True, True)}, id="one in the other"),
    ],
)
def test_what_excludes_what(patterns: list[str], expected: set[tuple[bool, ...]]) -> None:
    """A combination that no text has is not there."""
    assert set(combinations([of_pattern(pattern) for pattern in patterns]).texts) == expected


def test_the_shortest_text_is_given() -> None:
    """Of the texts of a combination, none is shorter."""
    texts = combinations([of_pattern("git push"), of_pattern("--force")]).texts

    assert texts[True, True] in ("git push--force", "--forcegit push")


BANS = ["rm", "sudo", "curl.*sh$", "^git push", r"\bdd\b", "mkfs", "chmod 777", "> */etc", "shutdown", "kill"]


def test_of_patterns_of_which_one_is_enough_one_comes_at_a_time() -> None:
    """Many bans over one argument are told apart by as many texts, and none of them is missed."""
    found = combinations([of_pattern(pattern) for pattern in BANS], alone=range(len(BANS)))

    assert found.whole
    assert set(found.texts) == {tuple(n == k for n in range(len(BANS))) for k in range(-1, len(BANS))}
    assert all(_found(BANS, text) == hits for hits, text in found.texts.items())


def test_a_pattern_that_never_comes_alone_is_found_with_others() -> None:
    """Where one is in every text of another, a text with both is there."""
    found = combinations([of_pattern("rm -rf"), of_pattern("rm"), of_pattern("ls")], alone=range(3))

    assert found.whole
    assert (True, True, False) in found.texts
    assert (True, False, False) not in found.texts


def test_it_ends_when_the_time_is_over() -> None:
    """What has too many combinations is given up, with those that were found."""
    patterns = [f"{chr(97 + n)}.*{chr(97 + n)}.*{n}" for n in range(20)]
    spent = Budget(0, 1)
    found = combinations([of_pattern(pattern) for pattern in patterns], budget=spent)

    assert not found.whole


@pytest.mark.parametrize("pattern", ["", "x*", "a$", r"\.env"])
def test_the_empty_text_stands_for_itself_only(pattern: str) -> None:
    """Where another text will do, it does: an empty argument is hard to read, and a key is none."""
    assert "" not in combinations([of_pattern(pattern)]).texts.values()


def test_some_texts_are_alike() -> None:
    """Values of a key have the same patterns, as many as were asked for."""
    patterns = [r"\.env$", "^/etc"]
    texts = alike_texts([of_pattern(pattern) for pattern in patterns], "/etc/.env", 4)

    assert len(set(texts)) == 4
    assert {_found(patterns, text) for text in texts} == {(True, True)}


@pytest.mark.parametrize("name", ["db_*", "?at", "*", "a*b*c", "x"])
def test_names_are_found_as_matchers_find_them(name: str) -> None:
    """A pattern over names fits whole names, in their case."""
    for hits, text in combinations([of_name(name)]).texts.items():
        assert name_matches(name, text) is hits[0]


@pytest.mark.parametrize("pattern", ["(?i)a", r"\pL", r"\Qa\E", "(?s:.)", "[[:alpha:]]x(?P<n>a)(?-i:b)"])
def test_a_pattern_of_another_kind_is_not_guessed_at(pattern: str) -> None:
    """What is not known here is an error, which makes the contract one that is not analysed."""
    with pytest.raises(UnknownPatternError):
        of_pattern(pattern)
