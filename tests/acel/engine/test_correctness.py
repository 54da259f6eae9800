"""The labelled traces, each of them, by the engine and by the naive reading."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.correctness import Case, judge, load_cases, main
from benchmarks.naive import Seen, breaks, breaks_at_end
from openbox_agentrt.acel.contracts.registry import TEMPLATES

CASES = load_cases()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_labelled_trace(case: Case) -> None:
    """The engine finds what the label says, no more and no less."""
    assert judge(case) == case.expected, case.note


SIMPLE = [
    case
    for case in CASES
    if case.mode == "live"
    and case.rule["template"] not in ("requires_state", "response")
    and not {"allow_negative", "numeric_text"} & case.rule["kwargs"].keys()
    and "?" not in "".join(map(str, case.rule["args"]))
]


@pytest.mark.parametrize("case", SIMPLE, ids=lambda case: case.id)
def test_a_label_is_what_the_sentence_says(case: Case) -> None:
    """So that a label that was written wrong, and an engine that agrees with it, are found."""
    assert naive(case) == case.expected, case.note


def naive(case: Case) -> frozenset[int | str]:
    """What the naive reading finds broken in a case whose calls are judged live."""
    from benchmarks.correctness import _OUTCOMES, _parse

    now, latest, order, step = 0.0, 0.0, 0, 0
    seen: list[Seen] = []
    flying: dict[str, Seen] = {}
    found: set[int | str] = set()

    def end(call: Seen, how: str) -> None:
        ended: Any = _OUTCOMES[how]
        call.ended, call.ended_at, call.ended_order = ended, latest, order

    for word in case.schedule:
        order += 1
        if word == "$":
            continue
        if word[0] in "+-":
            now += float(word)
            latest = max(latest, now)
        elif word[0] == ">":
            end(flying.pop(word[1]), word[2:])
        else:
            tool, args, how, _ = _parse(word)
            step += 1
            call = Seen(step=step, tool=tool, args=args, at=latest, order=order)
            if breaks(case.rule, seen, call):
                found.add(step)
                continue
            seen.append(call)
            if how.startswith("<"):
                flying[how[1:]] = call
            else:
                order += 1
                end(call, how)
    if breaks_at_end(case.rule, seen, latest):
        found.add("$")
    return frozenset(found)


def test_the_set_is_what_it_is_meant_to_be() -> None:
    """Large, over every template and mode, with calls that fail, never run, and run side by side."""
    words = Counter(word for case in CASES for word in case.schedule)

    assert len(CASES) >= 200
    assert {case.rule["template"] for case in CASES} == TEMPLATES.keys()
    assert Counter(case.mode for case in CASES).keys() == {"live", "shadow", "replay"}
    for sign in ("!", "-", "?", "<"):
        assert sum(count for word, count in words.items() if sign in word[1:]) >= 8
    assert len({case.id for case in CASES}) == len(CASES)
    assert len(SIMPLE) > 150


def test_the_command_prints_precision_and_recall(capsys: pytest.CaptureFixture[str]) -> None:
    """Both of them 1, as a table and as JSON."""
    assert main([]) == 0
    assert "precision             1.0\nrecall                1.0" in capsys.readouterr().out
    assert main(["--json"]) == 0
    assert '"recall": 1.0' in capsys.readouterr().out


def test_the_command_is_one_of_the_benchmarks(capsys: pytest.CaptureFixture[str]) -> None:
    """``python -m benchmarks correctness``."""
    from benchmarks.__main__ import main as benchmarks

    assert benchmarks(["correctness"]) == 0
    assert "precision" in capsys.readouterr().out


def test_a_wrong_answer_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And is printed."""
    monkeypatch.setattr("benchmarks.correctness.judge", lambda case: frozenset({1}))

    assert main([]) == 1
    assert "wrong: must_precede" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["  live | a | no rule", 'must_precede ["a"]\n  soon | a | x'])
def test_a_line_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    """With its number."""
    path = tmp_path / "labelled.txt"
    path.write_text(text)

    with pytest.raises(ValueError, match=r"line [12]: expected a rule"):
        load_cases(path)


def test_a_word_that_cannot_be_read_is_named() -> None:
    """So that a typing error is no empty trace."""
    case = Case(
        rule={"template": "init", "args": ["a"], "kwargs": {}}, mode="live", schedule=("a&",), note=""
    )

    with pytest.raises(ValueError, match="'a&' cannot be read"):
        judge(case)
