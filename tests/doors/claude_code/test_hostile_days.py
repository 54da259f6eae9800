"""Days of hooks that nobody plans: calls side by side, ends that never come, clocks that jump, full disks."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from openbox_agentrt.acel import Reservation, Session, build_contract
from openbox_agentrt.acel.engine.call.lifecycle import conclude
from openbox_agentrt.acel.events import ToolCallEvent
from openbox_agentrt.doors.claude_code import history
from openbox_agentrt.doors.claude_code.answers import HookAnswer, HookSettings, after_tool, before_tool
from openbox_agentrt.doors.claude_code.event import event_from
from openbox_agentrt.doors.claude_code.log import file_stem

COMMIT = {"tool": "Bash", "matches": "git (commit|push)"}
PYTEST = {"tool": "Bash", "matches": "pytest"}
CONTRACTS: list[dict[str, Any]] = [
    {"template": "must_precede", "args": [PYTEST, COMMIT]},
    {"template": "must_precede", "args": ["Look", "Pay"], "key": "to", "within": 30},
    {"template": "must_precede", "args": ["Look", "Pay"], "kwargs": {"since": "Ship"}},
    {"template": "chain_precedence", "args": ["Look", "Pay"]},
    {"template": "alternate_precedence", "args": ["Look", "Pay"]},
    {"template": "never_after", "args": ["Pay", "Ship"]},
    {"template": "mutually_exclusive", "args": [COMMIT, "Ship"]},
    {"template": "at_most_n_times", "args": ["Pay", 3], "kwargs": {"refund_on_failure": True}},
    {"template": "at_most_n_times", "args": [{"any_of": ["Pay", "Ship"]}, 2], "key": "to"},
    {"template": "at_most_n_times", "args": ["Pay", 1], "when": "args.amount > 5"},
    {"template": "at_most_in_flight", "args": ["*", 2], "within": 30},
    {"template": "rate_limit", "args": ["*", 3, 5]},
    {"template": "at_most_total", "args": ["Pay", "amount", 20.5], "kwargs": {"refund_on_failure": True}},
    {"template": "at_most_total", "args": ["Pay", "amount", 9], "key": "to", "within": 30},
    {"template": "max_distinct", "args": ["Pay", "to", 1], "kwargs": {"refund_on_failure": True}},
    {"template": "came_from", "args": ["Pay", "to", [{"tool": "Look", "path": "to"}]]},
    {
        "template": "requires",
        "args": ["Pay", "facts.seen.amount < 6"],
        "facts": [{"tool": "Look", "as": "seen", "values": {"amount": "result.amount"}}],
    },
    {"template": "response", "args": ["Pay", "Look"], "within": 5},
    {"template": "at_most_n_times", "args": ["Ship", 2], "mode": "shadow"},
    {"template": "never", "args": [COMMIT], "on_violation": "halt"},
]
TOOLS = st.sampled_from(["Look", "Pay", "Pay", "Ship", "Bash"])
ARGS = st.fixed_dictionaries(
    {"command": st.sampled_from(["ls", "git push", "pytest -q"])},
    optional={
        "amount": st.sampled_from([1, 2.5, 7, "3", -4, None, True]),
        "to": st.sampled_from(["ann", "bob", " ann", 7, "7", ["ann"], None]),
    },
)
RESULTS = st.sampled_from(
    [None, {"to": "ann", "amount": 2}, {"to": ["bob"], "amount": 9}, {"is_error": True}]
)
ENDS = st.sampled_from(["PostToolUse", "PostToolUse", "PostToolUseFailure", "PermissionDenied"])
TROUBLE = st.sampled_from([None] * 12 + ["full", "killed"])
LATER = st.sampled_from([0.0, 0.3, 4.0, 40.0, -3.0, 31_536_000.0, -31_536_000.0])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["begin", "begin", "end", "end", "unasked"]), TOOLS, ARGS, ENDS, RESULTS
    ).flatmap(lambda step: st.tuples(st.just(step), TROUBLE, st.integers(1, 3), LATER, st.integers(0, 9))),
    min_size=20,
    max_size=60,
)
TOLD = re.compile(r"step \d+|(?<=\d)\.0+(?= left)")
"""A refused call is a step of one session, and none of a session that begins anew from a log."""


class _Killed(BaseException):
    """The process is no more."""


@contextmanager
def trouble(kind: str | None, at: int) -> Iterator[None]:
    """Let the disk be full, or the process be killed, at one of the next writes."""
    left = [at]
    write = os.write

    def writes(fd: int, data: bytes) -> int:
        left[0] -= 1
        if kind == "full" and left[0] <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        if kind == "killed" and left[0] == 0:
            if at % 2:
                write(fd, data)
            raise _Killed
        return write(fd, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", writes)
        yield


class Day:
    """The events of one day, each as a process of its own would answer it."""

    def __init__(self, folder: Path, contracts: list[dict[str, Any]]) -> None:
        rules = folder / "rules.json"
        rules.write_text(json.dumps({"contracts": contracts}))
        self.now, self.count = 1_000.0, 0
        self.settings = HookSettings(
            rules=str(rules), state_dir=str(folder / "state"), clock=lambda: self.now
        )
        self.log = folder / "state" / f"{file_stem('s')}.jsonl"
        self.asked: dict[str, dict[str, Any]] = {}
        self.running: list[dict[str, Any]] = []
        self.let_through: list[str] = []

    def step(self, step: tuple[Any, ...], kind: str | None, at: int, later: float, which: int) -> None:
        what, tool, args, end, result = step
        self.now += later
        if what == "begin" or not self.running:
            call = self._call(tool, args)
            answer = self._answer(before_tool, {**call, "hook_event_name": "PreToolUse"}, kind, at)
            if answer == HookAnswer():
                self.let_through.append(call["tool_use_id"])
                self.running.append(call)
            return
        call = self._call(tool, args) if what == "unasked" else self.running.pop(which % len(self.running))
        if which == 9:
            call = {**call, "tool_input": args}
        self._answer(after_tool, {**call, "hook_event_name": end, "tool_response": result}, kind, at)

    def _call(self, tool: str, args: dict[str, Any]) -> dict[str, Any]:
        self.count += 1
        call = {"session_id": "s", "tool_name": tool, "tool_input": args, "tool_use_id": f"t{self.count}"}
        self.asked[event_from({**call, "hook_event_name": "PreToolUse"}).digest] = call
        return call

    def _answer(self, hook: Any, event: Mapping[str, Any], kind: str | None, at: int) -> HookAnswer | None:
        try:
            with trouble(kind, at):
                answer: HookAnswer = hook(json.dumps(event).encode(), self.settings)
        except _Killed:
            return None
        if answer.code:
            assert kind == "full", answer
        return answer

    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_bytes().splitlines()]


def follow(day: Day, contracts: list[dict[str, Any]]) -> None:
    """Judge what the log says in one session that is never interrupted, and compare each decision."""
    now = [0.0]
    session = Session(contracts=[build_contract(spec) for spec in contracts], clock=lambda: now[0])
    running: dict[str, Reservation] = {}
    for entry in day.entries():
        now[0] = max(now[0], entry.get("ts", 0.0))
        match entry["event"]:
            case "pre":
                running[entry["call"]] = session.reserve(entry["tool"], entry["args"])
                assert running[entry["call"]].allowed, entry
            case "deny":
                call = day.asked[entry["digest"]]
                refused = session.reserve(call["tool_name"], call["tool_input"])
                assert refused.refusal is not None, entry
                # What would help stands behind it.
                assert _plain(entry["reason"]).startswith(_plain(refused.refusal.message)), entry
            case "post":
                outcome: Any = "ok" if entry["ok"] else "failed" if entry["ran"] else "aborted"
                ended, args = running.pop(entry["call"]), entry.get("args")
                conclude(ended, entry.get("result"), outcome=outcome, args=args)
            case "ran":
                tool, args, outcome = entry["tool"], entry["args"], entry["outcome"]
                session.replay_prefix([ToolCallEvent(tool, args, None, now[0], outcome=outcome)])


def _plain(reason: str) -> str:
    return " ".join(TOLD.sub("", reason).split())


@given(contracts=st.lists(st.sampled_from(CONTRACTS), min_size=1, max_size=3, unique_by=str), steps=STEPS)
# A day is short as it is; to look for the shortest takes minutes.
@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_a_hostile_day_is_decided_as_one_session_would(
    tmp_path_factory: pytest.TempPathFactory, contracts: list[dict[str, Any]], steps: list[tuple[Any, ...]]
) -> None:
    """In the order of the log, which has every call that was let through, and nothing else is let through."""
    day = Day(tmp_path_factory.mktemp("day"), contracts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history, "SNAPSHOT_AFTER", 3)
        for step in steps:
            day.step(*step)

    written = [entry["call"] for entry in day.entries() if entry["event"] == "pre"]
    assert {f"id:{call}" for call in day.let_through} <= set(written)
    follow(day, contracts)
