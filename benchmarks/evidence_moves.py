"""Attacks on the evidence of hooks with a store, and of sessions that move; see `evidence_attacks`."""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from openbox_agentrt.acel import Session, at_most_total, must_precede
from openbox_agentrt.acel.engine.rerun.fleet_account import FleetAccount
from openbox_agentrt.acel.rerun import rerun_file, rerun_files
from openbox_agentrt.doors.claude_code.answers import HookSettings, after_tool, at_end, before_tool
from openbox_agentrt.evidence import EvidenceFile, ed25519_signer, verify_file
from openbox_agentrt.evidence.logs import logs_in
from openbox_agentrt.fleet import SqliteFleet

from .evidence_ground import Attacked, Ground
from .rechaining import rechained

Edit = Callable[[dict[str, Any]], object]

RULES = {
    "contracts": [
        {"template": "must_precede", "args": ["Review", "Deploy"], "scope": "fleet", "within": 3600},
        {"template": "at_most_n_times", "args": ["Deploy", 2], "scope": "fleet", "per": "day"},
        {"template": "at_most_n_times", "args": ["Read", 1000]},
    ]
}


class HookFolder:
    """Send events to hooks, each a process of its own, and read what they leave."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.state, self._number = folder / "state", 0
        (folder / "rules.json").write_text(json.dumps(RULES))
        self.key = folder / "hook.key"
        self.settings = HookSettings(
            rules=str(folder / "rules.json"),
            state_dir=str(self.state),
            fleet=f"sqlite:///{folder}/fleet.db",
            record="steps",
            key=str(self.key),
        )

    def start(self, name: str, event: str, tool: str = "Read", number: int = 0) -> subprocess.Popen[str]:
        """Start the process of one event."""
        given, pipe = self.settings, subprocess.PIPE
        options = ["--rules", given.rules, "--state-dir", given.state_dir, "--fleet", given.fleet]
        options += ["--key", given.key, "--record", given.record]
        command = [sys.executable, "-m", "openbox_agentrt.cli", "hook", name, *map(str, options)]
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        assert process.stdin is not None
        process.stdin.write(_event(event, tool, number).decode())
        process.stdin.close()
        process.stdin = None
        return process

    def call(self, tool: str) -> bool:
        """Make one call to its end, in this process. Returns whether it was let through."""
        number = self.next()
        refused = before_tool(_event("PreToolUse", tool, number), self.settings).stdout
        if not refused:
            after_tool(_event("PostToolUse", tool, number), self.settings)
        return not refused

    def next(self) -> int:
        """Number a call."""
        self._number += 1
        return self._number

    def end(self) -> Path:
        """End the session; gives its evidence."""
        at_end(_event("SessionEnd", "", 0), self.settings)
        (log,) = self.state.glob("*.evidence.jsonl")
        return log

    def is_right(self) -> str:
        """End the session and say what is wrong with its evidence; nothing if all is right."""
        log = self.end()
        account = FleetAccount()
        report, again = verify_file(log, ed25519_signer(self.key)[1]), rerun_file(log, account=account)
        if report.ok and report.authenticated and again.ok and not account.contradictions():
            return ""
        return f"{report.reason} {again.differences[:2]} {again.problems[:2]} {account.contradictions()[:2]}"


def _event(name: str, tool: str, number: int) -> bytes:
    about = {"tool_name": tool, "tool_input": {"n": number}, "tool_use_id": f"t-{number}"}
    said = {"session_id": "s-1", "hook_event_name": name}
    return json.dumps({**said, "reason": "exit"} if name == "SessionEnd" else {**said, **about}).encode()


def hook_ground(ground: Ground) -> Ground:
    """Give the evidence of a hook session with a store, as a log to attack."""
    hooks = HookFolder(ground.folder / "hooks")
    said = [hooks.call(tool) for tool in ("Deploy", "Review", "Deploy", "Deploy", "Deploy")]
    assert said == [False, True, True, True, False]
    log = hooks.end()
    return Ground(ground.folder, ed25519_signer(hooks.key)[0], log, ground.quick)


def answers(ground: Ground) -> Iterator[Attacked]:
    """Change what the store answered in the evidence of hooks, and all hashes."""
    attacked = Attacked("an answer in the evidence of hooks changed or cut out, by --rerun alone")
    raw = hook_ground(ground).log.read_bytes().splitlines(keepends=True)
    for number in range(len(raw)):
        for name, edit in _ANSWER_EDITS.items():
            done: list[str] = []
            copy = ground.folder / "answers.jsonl"
            copy.write_bytes(rechained(raw, _only(number, edit, done))[0])
            if done:
                report = rerun_file(copy)
                attacked.note(bool(report.differences or report.problems), f"line {number}, {name}")
    yield attacked


def _flip(step: dict[str, Any]) -> object:
    step["allowed"] = not step["allowed"]
    return True


def _no_lease(step: dict[str, Any]) -> object:
    return step.get("answer", {}).pop("lease", None)


def _no_answer(step: dict[str, Any]) -> object:
    return step.pop("answer", None)


def _no_break(step: dict[str, Any]) -> object:
    return step.get("answer", {}).get("lease") is None and step.get("answer", {}).pop("broken", None)


def _other_guard(step: dict[str, Any]) -> object:
    broken = step.get("answer", {}).get("broken")
    return broken and (broken[0].update(nth=7) or True)


_ANSWER_EDITS: dict[str, Edit] = {
    "the verdict": _flip,
    "the lease": _no_lease,
    "the answer": _no_answer,
    "what it names": _no_break,
    "the guard": _other_guard,
    "the step": lambda step: "drop" if step["allowed"] else None,
}


def _only(number: int, edit: Edit, done: list[str]) -> Callable[[Any, dict[str, Any]], object]:
    def changed(line: Any, body: dict[str, Any]) -> object:
        if line.seq != number or body.get("e") != "fleet":
            return None
        said = edit(body)
        if said:
            done.append("")
        return said

    return changed


_WORKER = """
import sys, time
from openbox_agentrt.acel import Session, at_most_total, must_precede
from openbox_agentrt.evidence import EvidenceFile, ed25519_signer
from openbox_agentrt.fleet import SqliteFleet, FleetError

log, key, store, seed = sys.argv[1:]
rules = [must_precede("verify", "pay", key="to"), at_most_total("pay", "amount", 10**6, key="to")]
fleet = SqliteFleet(store, timeout_seconds=20, lease_seconds=0.6)
with EvidenceFile(log, signer=ed25519_signer(key)[0], record="steps", redact_fields=["to"]) as evidence:
    print("go", flush=True)
    for number in range(int(seed), int(seed) + 40):
        session = Session(contracts=rules, fleet=fleet, durable=True, session_id="s-1", evidence=evidence)
        to = f"card {number % 3}"
        for tool in ("verify", "pay", "pay"):
            call = session.reserve(tool, {"to": to, "amount": number})
            if call.allowed and call.start():
                call.commit("done")
        session.release()
        time.sleep(0.005)
fleet.close()
"""


def _worker(folder: Path, name: str, seed: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _WORKER, str(folder / f"{name}.jsonl"), str(folder / "w.key")]
    command += [str(folder / "fleet.db"), str(seed)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def moving_kills(ground: Ground) -> Iterator[Attacked]:
    """Let two workers take one session from each other, and kill one of them again and again."""
    attacked = Attacked("a worker killed with SIGKILL between which and another a session moves")
    chance, moved = random.Random(3), 0
    for number in range(1 if ground.quick else 50):
        folder = ground.folder / f"moving-{number}"
        folder.mkdir()
        public = ed25519_signer(folder / "w.key")[1]
        stays, killed = _worker(folder, "stays", number), _worker(folder, "killed", number + 7)
        for process in (stays, killed):
            assert process.stdout is not None
            process.stdout.readline()
        time.sleep(chance.random() * 0.6)
        killed.send_signal(signal.SIGKILL)
        for process in (killed, stays):
            process.communicate(timeout=120)
        logs = logs_in([folder])
        reports = [verify_file(log, public) for log in logs]
        again = rerun_files(logs)
        moved += sum(each.moved for each in again)
        wrong = [
            (each.differences[:2], each.problems[:2]) for each in again if each.differences or each.problems
        ]
        attacked.note(all(each.ok for each in reports) and not any(wrong), f"number {number}: {wrong}")
    assert moved or ground.quick, "no session moved: nothing was tried"
    yield attacked


def altered_stores(ground: Ground) -> Iterator[Attacked]:
    """Change each number in each piece of a session that one worker left, before the next takes it."""
    attacked = Attacked("a session altered in the store between two workers, by --rerun of their logs")
    folder = ground.folder / "altered"
    folder.mkdir()
    for name, text in _pieces_left(folder, 0):
        for place in ground.some([at for at, letter in enumerate(text) if letter.isdigit()], 2):
            own = folder / f"{name.replace(':', '-')}-{place}"
            own.mkdir()
            dict(_pieces_left(own, 0))
            with closing(sqlite3.connect(own / "fleet.db")) as store:
                now = store.execute("select value from piece where name = ?", (name,)).fetchone()[0]
                changed = now[:place] + ("1" if now[place] != "1" else "2") + now[place + 1 :]
                store.execute("update piece set value = ? where name = ?", (changed, name))
                store.commit()
            _work(own, "b", 1)
            logs = [own / "a.jsonl", own / "b.jsonl"]
            _, again = rerun_files(logs)
            # One that cannot be read stops the call. Where the store names another who left it, no log
            # shows that it was left.
            is_found = bool(again.differences or again.unproven) or not again.moved
            attacked.note(is_found, f"{name} at {place}")
    yield attacked


def _pieces_left(folder: Path, amount: int) -> list[tuple[str, str]]:
    _work(folder, "a", amount)
    with closing(sqlite3.connect(folder / "fleet.db")) as store:
        return list(store.execute("select name, value from piece order by name"))


def _work(folder: Path, name: str, amount: int) -> None:
    rules = [must_precede("verify", "pay", key="to"), at_most_total("pay", "amount", 10**6, key="to")]
    path, key = folder / f"{name}.jsonl", b"k" * 32
    with (
        EvidenceFile(path, record="steps", redact_fields=["to"], redaction_key=key) as log,
        closing(SqliteFleet(folder / "fleet.db", timeout_seconds=20)) as fleet,
    ):
        session = Session(contracts=rules, fleet=fleet, durable=True, session_id="s-1", evidence=log)
        for tool in ("verify", "pay"):
            call = session.reserve(tool, {"to": "ann", "amount": amount + 12})
            if call.allowed and call.start():
                call.commit("done")
        session.release()


def hook_kills(ground: Ground) -> Iterator[Attacked]:
    """Kill hooks at random moments, and go on with the session."""
    attacked, chance = Attacked("a hook killed with SIGKILL, and the session gone on with"), random.Random(5)
    hooks = HookFolder(ground.folder / "killed-hooks")
    hooks.call("Review")
    tries = 2 if ground.quick else 60
    for _ in range(tries):
        number = hooks.next()
        process = hooks.start("pre", "PreToolUse", chance.choice(["Deploy", "Review"]), number)
        time.sleep(chance.random() * 0.5)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    wrong = hooks.is_right()
    for _ in range(tries):
        attacked.note(not wrong, wrong)
    yield attacked


def hooks_at_once(ground: Ground) -> Iterator[Attacked]:
    """Let two hooks of one session judge at the same moment."""
    attacked = Attacked("two hooks of one session at once")
    hooks = HookFolder(ground.folder / "two-hooks")
    tries = 1 if ground.quick else 30
    for _ in range(tries):
        both = [hooks.start("pre", "PreToolUse", "Review", hooks.next()) for _ in range(2)]
        for process in both:
            process.communicate(timeout=60)
    wrong = hooks.is_right()
    for _ in range(tries):
        attacked.note(not wrong, wrong)
    yield attacked
