"""A halt is in force at the next gate, whoever judges there and in whichever process."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt import create_openbox_agentrt
from openbox_agentrt.acel import at_most_n_times
from openbox_agentrt.cli import main
from openbox_agentrt.decision import Verdict
from openbox_agentrt.errors import GovernanceError, GovernanceHaltError
from openbox_agentrt.local_core import LocalCore, UndecidableApprovalError, running

NAMES = ["run_id", "session_id", "agent"]


def _named(run: Any, name: str) -> dict[str, str]:
    values = {"run_id": run.run_id, "session_id": run.session_id, "agent": run.agent_name}
    return {name: str(values[name])}


async def _refused_in(governance: Any, activity: str = "read") -> GovernanceError | None:
    try:
        async with governance.activity(activity):
            pass
    except GovernanceError as error:
        return error
    return None


@asynccontextmanager
async def _ends_halted(scope: Any) -> AsyncIterator[Any]:
    """Be in a run that has to end with a halt, although what it does is fine."""
    try:
        async with scope as run:
            yield run
    except GovernanceHaltError:
        return
    pytest.fail("the run ended as if nothing had halted it")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("core", ["off", "local"])
async def test_a_governance_halts_at_the_next_gate(core: Any, name: str) -> None:
    """With contracts alone as with Core; the decision says who it was, and other runs go on."""
    decisions: list[Any] = []
    governance = await create_openbox_agentrt(
        core=core, contracts=[at_most_n_times("read", n=100)], on_decision=decisions.append
    )
    async with governance:
        async with _ends_halted(governance.run_scope(agent_name="desk", session_id="s-1")) as run:
            assert await _refused_in(governance) is None

            halted = governance.halt(**_named(run, name), reason="it runs wild", by="ops-lead")

            error = await _refused_in(governance)
            assert halted == 1
            assert isinstance(error, GovernanceHaltError)
            assert "it runs wild (halted by ops-lead)" in str(error)
        async with governance.run_scope(agent_name="other", session_id="s-2"):
            assert await _refused_in(governance) is None

    told = next(one for one in decisions if one.event == "halted")
    assert (told.verdict, told.source, told.decided_by) == (Verdict.HALT, "halted", "ops-lead")


@pytest.mark.parametrize("name", ["session_id", "agent"])
async def test_runs_that_open_later_are_halted_too(name: str) -> None:
    """A halted agent is not let in again by starting another run."""
    governance = await create_openbox_agentrt(core="off", contracts=[at_most_n_times("read", n=100)])
    async with governance:
        governance.halt(**{name: "x"}, reason="until further notice")
        async with _ends_halted(governance.run_scope(agent_name="x", session_id="x")):
            assert isinstance(await _refused_in(governance), GovernanceHaltError)


async def test_the_runs_around_it_are_halted_with_it() -> None:
    """A nested run is work of the run around it."""
    governance = await create_openbox_agentrt(core="off", contracts=[at_most_n_times("read", n=100)])
    async with governance, _ends_halted(governance.run_scope(agent_name="outer")):
        async with _ends_halted(governance.run_scope(agent_name="inner")) as inner:
            governance.halt(run_id=inner.run_id, reason="stop")
            await _refused_in(governance)
        assert isinstance(await _refused_in(governance), GovernanceHaltError)


@pytest.mark.parametrize("kept", ["memory", "file"])
@pytest.mark.parametrize("name", NAMES)
async def test_a_core_halts_what_is_nested_in_a_run_that_is_halted(
    tmp_path: Path, name: str, kept: str
) -> None:
    """Also two runs deep, where neither the run nor its session nor its agent was named; others go on."""
    path = ":memory:" if kept == "memory" else str(tmp_path / "core.sqlite3")
    with LocalCore(path=path) as core:
        async with await create_openbox_agentrt(core=core) as governance:
            outer = governance.run_scope(agent_name="outer", session_id="s-1")
            async with _ends_halted(outer) as run:
                async with governance.run_scope(agent_name="middle"):
                    pass
                async with (
                    _ends_halted(governance.run_scope(agent_name="middle")),
                    _ends_halted(governance.run_scope(agent_name="inner")),
                ):
                    assert await _refused_in(governance) is None
                    core.halt(**_named(run, name), reason="stop")
                    assert isinstance(await _refused_in(governance), GovernanceHaltError)
            async with (
                governance.run_scope(agent_name="other"),
                governance.run_scope(agent_name="nested in it"),
            ):
                assert await _refused_in(governance) is None


async def test_what_waits_in_a_nested_run_does_not_run_once_the_run_around_it_is_halted() -> None:
    """A person who says yes to it is told that it is over."""
    with LocalCore(_asks_about_refunds) as core:
        governance = await create_openbox_agentrt(core=core, approval_poll_interval_ms=20)
        async with governance, _ends_halted(governance.run_scope(agent_name="outer")) as run:
            async with _ends_halted(governance.run_scope(agent_name="inner")):
                waits = asyncio.create_task(_refused_in(governance, "refund"))
                approval = await core.await_approval()
                core.halt(run_id=run.run_id, reason="stop")
                with pytest.raises(UndecidableApprovalError):
                    core.approve(approval)
                assert await waits is not None
                assert isinstance(await _refused_in(governance), GovernanceHaltError)
            assert isinstance(await _refused_in(governance), GovernanceHaltError)


@pytest.mark.parametrize("name", NAMES)
async def test_a_call_that_waits_for_a_person_is_told_of_the_halt_over_http(name: str) -> None:
    """It has not expired: somebody halted it, and one decision says so, and how long it had waited."""
    decisions: list[Any] = []
    with LocalCore(_asks_about_refunds) as core, running(core) as url:
        governance = await create_openbox_agentrt(
            api_url=url, api_key=core.api_key, approval_poll_interval_ms=20, on_decision=decisions.append
        )
        async with governance:
            scope = governance.run_scope("work", agent_name="desk", session_id="s-1")
            async with _ends_halted(scope) as run:
                waits = asyncio.create_task(_refused_in(governance, "refund"))
                await core.await_approval()
                core.halt(**_named(run, name), reason="it runs wild", by="ops-lead")

                error = await waits
                assert isinstance(error, GovernanceHaltError)
                assert str(error).startswith("'refund' was halted: it runs wild (halted by ops-lead)")
                (told,) = (one for one in decisions if one.event == "refund")
                assert (told.verdict, told.source, told.approval) == (Verdict.HALT, "halted", None)
                assert told.approval_seconds > 0
                assert isinstance(await _refused_in(governance), GovernanceHaltError)


def _asks_about_refunds(event: dict[str, Any]) -> str | None:
    return "REQUIRE_APPROVAL" if event.get("activity_type") == "refund" else None


@pytest.mark.parametrize(
    "given",
    [{}, {"run_id": "a", "agent": "b"}, {"run_id": ""}],
    ids=["nobody", "two of them", "an empty one"],
)
async def test_a_halt_is_of_one_and_has_a_reason(given: dict[str, str]) -> None:
    """Anything else is refused, and halts nothing."""
    governance = await create_openbox_agentrt(core="local")
    async with governance:
        with pytest.raises(ValueError, match="exactly one"):
            governance.halt(**given, reason="stop")
        with pytest.raises(ValueError, match="reason"):
            governance.halt(run_id="a", reason=" ")
        assert governance.core.halts() == []


@pytest.mark.parametrize("name", NAMES)
async def test_a_core_halts_a_run_of_another_process(name: str) -> None:
    """The agent asks over HTTP; whoever halts it has only the Core."""
    with LocalCore() as core, running(core) as url:
        governance = await create_openbox_agentrt(api_url=url, api_key=core.api_key)
        async with governance:
            scope = governance.run_scope("work", agent_name="desk", session_id="s-1")
            async with _ends_halted(scope) as run:
                assert await _refused_in(governance) is None

                core.halt(**_named(run, name), reason="it runs wild", by="ops-lead")

                error = await _refused_in(governance)
                assert isinstance(error, GovernanceHaltError)
                assert "it runs wild (halted by ops-lead)" in str(error)
            async with governance.run_scope("work", agent_name="other", session_id="s-2"):
                assert await _refused_in(governance) is None


def test_the_command_line_halts_by_the_file_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the file of a Core that another process serves."""
    db = tmp_path / "core.sqlite3"
    with LocalCore(path=db) as core:
        assert _answer(core, "run-1") == "allow"
        given = ["--reason", "it runs wild", "--by", "ops-lead", "--db", str(db)]

        assert main(["halt", "--session", "s-1", *given]) == 0
        assert capsys.readouterr().out == "halted session s-1\n"
        assert _answer(core, "run-1", activity="a-2") == "halt"
        assert main(["halt", *given]) == 2
        assert "name exactly one" in capsys.readouterr().err
        assert main(["halt", "--session", "s-2", "--lift", "--db", str(db)]) == 0
        assert capsys.readouterr().out == "session s-2 was not halted; --list says what is\n"
        assert main(["halt", "--session", "s-1", "--lift", "--db", str(db)]) == 0
        assert capsys.readouterr().out == "lifted the halt of session s-1\n"


async def test_what_waits_for_a_person_does_not_run_any_more(tmp_path: Path) -> None:
    """Nor can it be approved."""

    def policy(event: dict[str, Any]) -> Any:
        return "REQUIRE_APPROVAL" if event.get("activity_type") == "refund" else None

    with LocalCore(policy, tmp_path / "core.sqlite3") as core:
        governance = await create_openbox_agentrt(core=core, approval_poll_interval_ms=20)
        async with governance, _ends_halted(governance.run_scope("work")) as run:
            waits = asyncio.create_task(_refused_in(governance, "refund"))
            approval = await core.await_approval()

            governance.halt(run_id=run.run_id, reason="stop", by="ops-lead")

            assert isinstance(await waits, GovernanceError)
            with pytest.raises(UndecidableApprovalError):
                core.approve(approval)


def test_a_halt_can_be_lifted_of_an_agent_and_not_of_a_run() -> None:
    """Runs that were halted stay so; others begin again."""
    with LocalCore() as core:
        core.halt(agent="desk", reason="stop")
        assert _answer(core, "run-1") == "halt"
        assert core.lift_halt(agent="desk") == 1

        assert _answer(core, "run-1", activity="a-2") == "halt"
        assert _answer(core, "run-2") == "allow"
        with pytest.raises(ValueError, match="exactly one"):
            core.lift_halt()


def test_halts_are_seen_side_by_side(tmp_path: Path) -> None:
    """No event slips through between many threads."""
    db = tmp_path / "core.sqlite3"
    with LocalCore(path=db) as core, LocalCore(path=db) as other:
        other.halt(session_id="s-1", reason="stop")
        answers: list[str] = []
        threads = [
            threading.Thread(target=lambda n=n: answers.append(_answer(core, f"run-{n}"))) for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert answers == ["halt"] * 8


def _answer(core: LocalCore, run: str, activity: str = "a-1") -> str:
    event = {
        "source": "workflow-telemetry",
        "event_type": "ActivityStarted",
        "workflow_id": f"workflow-of-{run}",
        "run_id": run,
        "workflow_type": "desk",
        "activity_id": activity,
        "activity_type": "read",
        "activity_input": [],
        "session_id": "s-1",
        "timestamp": "2027-02-11T03:01:18Z",
    }
    headers = {"authorization": f"Bearer {core.api_key}"}
    body = json.dumps(event).encode()
    _, _, answer = core.handle("POST", "/api/v1/governance/evaluate", headers, body)
    return str(json.loads(answer)["verdict"])
