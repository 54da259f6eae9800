"""What the store of a fleet answered hooks, in the evidence of their sessions."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.rechaining import rechained
from openbox_agentrt.acel.engine.rerun.fleet_account import FleetAccount
from openbox_agentrt.acel.rerun import rerun_file
from openbox_agentrt.cli import main
from openbox_agentrt.doors.claude_code.log import file_stem
from openbox_agentrt.evidence import read_entries
from tests.doors.claude_code.test_hook_steps import Hooks

DAY: dict[str, Any] = {"scope": "fleet", "per": "day"}
RULES: dict[str, Any] = {
    "contracts": [
        {"template": "must_precede", "args": ["Review", "Deploy"], "scope": "fleet", "within": 3600},
        {"template": "at_most_n_times", "args": ["Deploy", 1], **DAY},
        {"template": "at_most_total", "args": ["Spend", "amount", 500], "key": "customer", **DAY},
        {"template": "at_most_n_times", "args": ["Deploy", 9]},
        {"template": "at_most_n_times", "args": ["Deploy", 0], "mode": "shadow", **DAY},
    ]
}


class FleetHooks(Hooks):
    """Hooks of sessions that share a store, which is a file in their folder."""

    def __init__(self, folder: Path, *, rules: dict[str, Any] = RULES, **options: Any) -> None:
        super().__init__(folder, fleet=f"sqlite:///{folder}/fleet.db", **options)
        (folder / "rules.json").write_text(json.dumps(rules))

    def log(self) -> Path:
        return self.folder / "state" / f"{file_stem(self.session)}.jsonl"


def asked(path: Path) -> list[dict[str, Any]]:
    return [entry.data for entry in read_entries(path) if entry.data.get("e") == "fleet"]


def test_a_halt_by_a_person_is_a_step(tmp_path: Path) -> None:
    """Between the calls that it refused, so that their refusals follow from the evidence."""
    hooks = FleetHooks(tmp_path)
    store = f"sqlite:///{tmp_path}/fleet.db"
    said = ["--session", hooks.session, "--reason", "wild", "--by", "ada", "--fleet", store]
    assert hooks.call("Read", path="a")
    assert main(["halt", *said]) == 0
    assert not hooks.call("Read", path="b")
    assert not hooks.call("Deploy", to="prod")
    assert main(["halt", *said, "--lift"]) == 0
    assert hooks.call("Read", path="c")
    assert hooks.end().code == 0

    report = rerun_file(hooks.evidence)
    assert (report.differences, report.problems, report.not_derivable) == ((), (), 0)
    steps = [entry.data for entry in read_entries(hooks.evidence) if "e" in entry.data]
    told = [(step["e"], step.get("why") or step.get("allowed")) for step in steps]
    asked = [each for each in told if each[0] in ("halt", "lift", "reserve", "fleet")]
    assert asked == [
        ("reserve", True),
        ("halt", "wild (halted by ada)"),
        ("reserve", False),
        ("reserve", False),
        ("lift", None),
        ("reserve", True),
    ]


def test_what_the_store_decided_follows_from_the_evidence(tmp_path: Path) -> None:
    """Allowed, refused for what is missing, for what is used up, and without asking."""
    hooks = FleetHooks(tmp_path, key=str(tmp_path / "e.key"))
    said = [
        hooks.call("Deploy", to="prod"),
        hooks.call("Review"),
        hooks.call("Deploy", to="prod"),
        hooks.call("Deploy", to="prod"),
        hooks.call("Spend", amount=300, customer="c-1"),
        hooks.call("Spend", amount=300, customer="c-1"),
        hooks.call("Spend", amount=300, customer="c-2", end=None),
        hooks.call("Spend", amount=1),
        hooks.call("Read", path="a"),
        hooks.call("Review", end="PostToolUseFailure"),
    ]
    assert said == [False, True, True, False, True, False, True, False, True, True]
    # Written in another order by then, which decides nothing.
    reordered = {"contracts": RULES["contracts"][::-1]}
    (tmp_path / "rules.json").write_text(json.dumps(reordered))
    assert hooks.end().code == 0

    account = FleetAccount()
    report = rerun_file(hooks.evidence, account=account)
    assert (report.differences, report.problems, report.not_derivable, report.on_code) == ((), (), 0, 0)
    steps = asked(hooks.evidence)
    assert [step["allowed"] for step in steps] == [*said[:8], said[9]]
    assert report.on_fleet == 8
    assert "answer" not in steps[7]
    assert account.contradictions() == []
    assert account.grants == 3


def test_what_was_refused_because_the_store_was_away_follows_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That it gave no answer is its answer."""
    monkeypatch.setattr("openbox_agentrt.doors.claude_code.fleet.SECONDS", 0.3)
    hooks = FleetHooks(tmp_path)
    assert hooks.call("Review")
    holder = sqlite3.connect(tmp_path / "fleet.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    # Whether somebody has halted the session is asked there too: that is another matter.
    monkeypatch.setattr("openbox_agentrt.doors.claude_code.fleet.halted_in_fleet", lambda *given: None)
    assert not hooks.call("Deploy")
    holder.close()
    hooks.end()

    report = rerun_file(hooks.evidence)
    assert (report.ok, report.on_fleet) == (True, 2)
    assert "unavailable" in asked(hooks.evidence)[-1]["answer"]


def change(path: Path, edit: Callable[[dict[str, Any]], object], *, allowed: bool) -> None:
    """Change the first step `fleet` of a kind, and make all hashes anew."""
    done: list[bool] = []

    def edited(line: Any, body: dict[str, Any]) -> object:
        if done or body.get("e") != "fleet" or body["allowed"] is not allowed:
            return None
        done.append(True)
        return edit(body)

    path.write_bytes(rechained(path.read_bytes().splitlines(keepends=True), edited)[0])
    assert done


@pytest.mark.parametrize(
    ("allowed", "edit", "derived"),
    [
        pytest.param(False, lambda step: step.update(allowed=True), "refused, breaks", id="a verdict"),
        pytest.param(True, lambda step: step["answer"].pop("lease"), "refused", id="a lease"),
        pytest.param(True, lambda step: "drop", "to be asked there first", id="an answer cut out"),
    ],
)
def test_an_answer_that_was_changed_is_named(
    tmp_path: Path, allowed: bool, edit: Callable[[dict[str, Any]], object], derived: str
) -> None:
    """As in the log of any other worker."""
    hooks = FleetHooks(tmp_path)
    hooks.call("Deploy")
    hooks.call("Review")
    hooks.end()
    assert rerun_file(hooks.evidence).ok

    change(hooks.evidence, edit, allowed=allowed)

    differences = rerun_file(hooks.evidence).differences
    assert derived in differences[0].derived


def test_the_sessions_of_a_folder_are_set_against_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two sessions share 500; one that was given more than there was is found by the log of the other."""
    hooks = FleetHooks(tmp_path)
    for session in ("s-1", "s-2"):
        hooks.session = session
        assert hooks.call("Spend", amount=250, customer="c-1")
        hooks.end()
    state = str(tmp_path / "state")
    assert main(["verify", state, "--rerun"]) == 0
    assert "2 grant(s) of the fleet's store, 0 contradict(s)" in capsys.readouterr().out

    path = hooks.evidence
    lines = path.read_bytes().splitlines(keepends=True)

    def more(line: Any, body: dict[str, Any]) -> object:
        return body.get("args", {}).update(amount=251) if "args" in body else None

    path.write_bytes(rechained(lines, more)[0])
    account = FleetAccount()
    for log in sorted((tmp_path / "state").glob("*.evidence.jsonl")):
        assert rerun_file(log, account=account).ok
    (contradiction,) = account.contradictions()
    assert "granted 501 of 500" in contradiction
