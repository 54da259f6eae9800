"""``python -m benchmarks correctness``: precision and recall over the labelled traces of `labelled.txt`."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from openbox_agentrt.acel import Session, build_contract
from openbox_agentrt.acel.events import Outcome
from openbox_agentrt.acel.reservation import Reservation

LABELLED = Path(__file__).with_name("labelled.txt")
Mode = Literal["live", "shadow", "replay"]
END = "$"

_WORD = re.compile(
    r"""(?P<tool>\w+)
        (?: : (?P<n> "(?:[^"\\]|\\.)*" | \[.*?\] | -?[\w.]+ ) )?
        (?: / (?P<k> \w+ ) )?
        (?P<how> [!?-] | <\d+ )?
        (?P<breaks> \* )?""",
    re.VERBOSE,
)
_OUTCOMES: Mapping[str, Outcome] = {"": "ok", "!": "failed", "-": "aborted", "?": "unknown"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """
    One labelled trace.

    Attributes:
        rule: The contract, as in a rules file.
        mode: How its calls are judged.
        schedule: The words of its line.
        note: What it is about.
    """

    rule: Mapping[str, Any]
    mode: Mode
    schedule: tuple[str, ...]
    note: str

    @property
    def id(self) -> str:
        """A name for it."""
        parameters = "".join(json.dumps(self.rule[part]) for part in ("args", "kwargs") if self.rule[part])
        return f"{self.rule['template']}{parameters} {self.mode}: {' '.join(self.schedule) or 'nothing'}"

    @property
    def expected(self) -> frozenset[int | str]:
        """The calls that break the rule, counting from 1, and the end of the session."""
        calls = [word for word in self.schedule if word[0] not in "+-><$" or word == END]
        return frozenset(
            END if word == END else step for step, word in enumerate(calls, 1) if word.endswith(("*", END))
        )

    @property
    def items(self) -> int:
        """How many answers it is about: one for each call, and one for the end."""
        return 1 + sum(word[0] not in "+-><$" for word in self.schedule)


@dataclass(slots=True)
class _Run:
    """A case under way."""

    case: Case
    now: float = 1_000_000.0
    flying: dict[str, Reservation] = field(default_factory=dict)

    def session(self) -> Session:
        """A session for it."""
        mode: Literal["enforce", "shadow"] = "shadow" if self.case.mode == "shadow" else "enforce"
        session = Session(mode=mode, contracts=[build_contract(self.case.rule)], clock=lambda: self.now)
        session.register_tool("set_open", commit=lambda state, args, result: state.set("open", True))
        return session


def load_cases(path: Path = LABELLED) -> list[Case]:
    """
    The labelled traces of a file.

    Raises:
        ValueError: A line cannot be read. It names the line.
    """
    cases: list[Case] = []
    rule: Mapping[str, Any] | None = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if not line.startswith(" "):
            template, _, rest = line.partition(" ")
            parts = list(_json_values(rest))
            rule = {"template": template, "args": parts[0], "kwargs": parts[1] if len(parts) > 1 else {}}
            continue
        mode, schedule, note = (part.strip() for part in line.split("|"))
        if rule is None or mode not in get_args(Mode):
            raise ValueError(f"line {number}: expected a rule, or one of live, shadow, replay, got {line!r}")
        cases.append(Case(rule=rule, mode=mode, schedule=tuple(schedule.split()), note=note))  # type: ignore[arg-type]  # checked
    return cases


def judge(case: Case) -> frozenset[int | str]:
    """What the engine finds broken in a case: steps of calls, and the end."""
    run = _Run(case)
    session = run.session()
    if case.mode == "replay":
        session.replay(list(_rows(run)))
    else:
        for word in case.schedule:
            _do(run, session, word)
        session.end_session()
    return frozenset(END if v.tool == "<session-end>" else v.step for v in session.violations)


def main(argv: Sequence[str] = ()) -> int:
    """Judge every labelled trace, and print precision and recall; 1 if any answer is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks correctness", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(list(argv))
    cases = load_cases()
    counts: Counter[str] = Counter()
    wrong: list[tuple[Case, frozenset[int | str]]] = []
    for case in cases:
        found, expected = judge(case), case.expected
        counts["true positives"] += len(found & expected)
        counts["false positives"] += len(found - expected)
        counts["false negatives"] += len(expected - found)
        counts["true negatives"] += case.items - len(found | expected)
        if found != expected:
            wrong.append((case, found))
    figures = _figures(cases, counts, len(wrong))
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        for name, value in figures.items():
            print(f"{name:<22}{value}")
    for case, found in wrong:
        print(f"wrong: {case.id} ({case.note}): found {sorted(map(str, found))}", file=sys.stderr)
    return 1 if wrong else 0


def _figures(cases: Sequence[Case], counts: Mapping[str, int], wrong: int) -> dict[str, Any]:
    positives = counts["true positives"] + counts["false positives"]
    actual = counts["true positives"] + counts["false negatives"]
    return {
        "traces": len(cases),
        **{f"  {mode}": sum(case.mode == mode for case in cases) for mode in get_args(Mode)},
        "templates": len({case.rule["template"] for case in cases}),
        "traces judged wrong": wrong,
        "answers": sum(case.items for case in cases),
        **dict(counts),
        "precision": counts["true positives"] / positives if positives else 1.0,
        "recall": counts["true positives"] / actual if actual else 1.0,
    }


def _do(run: _Run, session: Session, word: str) -> None:
    if word == END:
        return
    if word[0] in "+-":
        run.now += float(word)
        return
    if word[0] == ">":
        _end(run.flying.pop(word[1]), _OUTCOMES[word[2:]])
        return
    tool, args, how, _ = _parse(word)
    reservation = session.reserve(tool, args)
    if not reservation.allowed:
        return
    if how.startswith("<"):
        run.flying[how[1:]] = reservation
    else:
        _end(reservation, _OUTCOMES[how])


def _end(reservation: Reservation, outcome: Outcome) -> None:
    if outcome == "ok":
        reservation.commit(dict(reservation.args))
    elif outcome != "unknown":
        reservation.abort(ran=outcome == "failed")
    # An unknown outcome is what becomes of a reservation that is dropped, as happens on return.


def _rows(run: _Run) -> Iterator[dict[str, Any]]:
    for word in run.case.schedule:
        if word == END:
            continue
        if word[0] in "+-":
            run.now += float(word)
            continue
        tool, args, how, _ = _parse(word)
        yield {"tool": tool, "args": args, "result": args, "ts": run.now, "outcome": _OUTCOMES[how]}


def _parse(word: str) -> tuple[str, dict[str, Any], str, bool]:
    match = _WORD.fullmatch(word)
    if match is None:
        raise ValueError(f"word {word!r} cannot be read")
    args = {name: _value(match[name]) for name in ("n", "k") if match[name] is not None}
    return match["tool"], args, match["how"] or "", match["breaks"] is not None


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _json_values(text: str) -> Iterator[Any]:
    decoder, position = json.JSONDecoder(), 0
    while position < len(text):
        value, position = decoder.raw_decode(text, position)
        yield value
        position += len(text[position:]) - len(text[position:].lstrip())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
