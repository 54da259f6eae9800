"""Rules that change while it runs: put in force whole, or kept out and said."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_rt import AgentLoop

from openbox_agentrt import ContractRefusedError, create_openbox_agentrt
from openbox_agentrt._run.contracts import rules_in_force
from openbox_agentrt.acel import at_most_n_times
from openbox_agentrt.acel.rerun import rerun_file
from openbox_agentrt.errors import OptionError
from openbox_agentrt.evidence import read_entries, verify_file
from openbox_agentrt.testing import ScriptedProvider


def limit(n: int, tool: str = "pay") -> str:
    return f"contracts:\n  - {{template: at_most_n_times, args: [{tool}], kwargs: {{n: {n}}}}}\n"


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.yaml"
    write(path, limit(2))
    return path


async def pay(stage: Any, times: int, session_id: str | None = "s") -> int:
    """Pay, and say how often that was let through."""
    paid = 0
    async with stage.governance.run_scope(session_id=session_id):
        for _ in range(times):
            try:
                async with stage.governance.activity("pay", {}):
                    paid += 1
            except ContractRefusedError:
                pass
    return paid


async def test_a_raised_limit_goes_on_counting(make_stage: Any, rules: Path, tmp_path: Path) -> None:
    """Two were paid of two; of three, one is left. The evidence has both hashes."""
    path = tmp_path / "evidence.jsonl"
    stage = await make_stage(contracts=rules, evidence=path, record="steps")
    assert await pay(stage, 3) == 2
    before = stage.governance.rules_hash

    write(rules, limit(3))
    reloaded = stage.governance.reload()

    assert (reloaded.before, reloaded.after, reloaded.sessions) == (before, stage.governance.rules_hash, 1)
    assert reloaded.changed
    assert await pay(stage, 3) == 1
    assert await pay(stage, 9, session_id="another") == 3
    await stage.governance.aclose()
    told = [
        entry.data for entry in read_entries(path) if entry.type == "session" and entry.session_id is None
    ]
    assert told == [{"before": before, "rules_hash": reloaded.after}]
    assert verify_file(path, rules_hash=[reloaded.before, reloaded.after]).ok
    assert verify_file(path, rules_hash=reloaded.before).problem == "foreign"
    report = rerun_file(path)
    assert (report.differences, report.problems) == ((), ())


async def test_a_run_that_is_under_way_follows(make_stage: Any, rules: Path) -> None:
    stage = await make_stage(contracts=rules, evidence=None)
    async with stage.governance.run_scope():
        async with stage.governance.activity("pay", {}):
            write(rules, limit(1))
            stage.governance.reload()
        with pytest.raises(ContractRefusedError):
            async with stage.governance.activity("pay", {}):
                pass


async def test_the_same_rules_change_nothing(make_stage: Any, rules: Path) -> None:
    stage = await make_stage(contracts=rules)
    write(rules, "# another comment\n" + limit(2))
    reloaded = stage.governance.reload()
    assert not reloaded.changed


BROKEN = {
    "no YAML": "contracts: [",
    "a template that is none": "contracts:\n  - {template: at_most_n, args: [pay]}\n",
    "no contracts": "{}",
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
async def test_what_is_broken_is_kept_out(make_stage: Any, rules: Path, text: str) -> None:
    stage = await make_stage(contracts=rules)
    before = stage.governance.rules_hash
    write(rules, text)
    with pytest.raises(OptionError, match=r"rules\.yaml"):
        stage.governance.reload()
    assert stage.governance.rules_hash == before
    assert await pay(stage, 3) == 2


async def test_only_a_file_can_be_read_again(make_stage: Any) -> None:
    stage = await make_stage(contracts=[at_most_n_times("pay", 1)])
    with pytest.raises(OptionError, match="is no rules file"):
        stage.governance.reload()
    with pytest.raises(OptionError, match="reload_rules"):
        await make_stage(contracts=[at_most_n_times("pay", 1)], reload_rules=True)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not true():  # noqa: ASYNC110 - what is waited for happens in a thread
            await asyncio.sleep(0.02)


async def test_a_watched_file_is_put_in_force(
    rules: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Replaced as an editor and as a volume do; a broken one is said once, and what follows it is taken."""
    monkeypatch.setattr(rules_in_force, "WATCH_SECONDS", 0.01)
    caplog.set_level(logging.WARNING)
    threads = threading.active_count()
    governance = await create_openbox_agentrt(core="off", contracts=rules, reload_rules=True, environ={})
    async with governance:
        first = governance.rules_hash
        write(rules, "contracts: [")
        await until(lambda: "stay" in caplog.text)
        assert governance.rules_hash == first
        assert caplog.text.count("the rules that were in force stay") == 1

        other = rules.with_suffix(".new")
        write(other, limit(5))
        os.replace(other, rules)
        await until(lambda: "other rules are in force" in caplog.text)
        assert governance.rules_hash != first
    assert threading.active_count() == threads


async def test_tools_that_no_loop_has_are_said_again(
    make_stage: Any, rules: Path, caplog: pytest.LogCaptureFixture, kit: Any
) -> None:
    """A misspelt name in a changed file is said as it is when a loop is governed."""
    stage = await make_stage(contracts=rules)
    stage.governance.govern_loop(
        AgentLoop(ScriptedProvider(), tool_registry=kit.registry({"pay": lambda: 1}))
    )
    write(rules, limit(2, tool="pai"))
    stage.governance.reload()
    assert "did you mean 'pay'" in caplog.text
