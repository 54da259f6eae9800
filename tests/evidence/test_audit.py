"""The first question of an audit: which refunds were paid, to whom, how much, and who approved the 300?"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from agent_rt import (
    AgentConfig,
    AgentLoop,
    ContentPart,
    ModelMessage,
    ModelSettings,
    ToolDefinition,
    ToolRegistry,
)
from langchain_core.messages import ToolCall
from langchain_core.tools import StructuredTool

from openbox_agentrt import GovernanceError, create_openbox_agentrt
from openbox_agentrt.acel import ContractViolation, Session, at_most_total
from openbox_agentrt.acel.rerun import rerun_file
from openbox_agentrt.cli import main
from openbox_agentrt.doors.callables import guard
from openbox_agentrt.doors.langchain import govern_tool
from openbox_agentrt.doors.openai import run_tool_calls
from openbox_agentrt.evidence import Ed25519Signer, EvidenceFile, ed25519_signer, verify_file
from openbox_agentrt.local_core import LocalCore
from openbox_agentrt.testing import Call, ScriptedProvider

WANTED = [("ann", 100), ("ann", 300), ("bob", 20), ("cat", 400)]
PAID = [("ann", 100), ("ann", 300)]


def rules() -> list[Any]:
    return [at_most_total("refund", "amount", 500)]


def refund(to: str, amount: int) -> dict[str, int]:
    """Pay a refund."""
    if to == "bob":
        raise ConnectionError("the bank does not answer")
    return {"paid": amount}


def asked(folder: Path, capsys: pytest.CaptureFixture[str], *more: str) -> list[dict[str, Any]]:
    """Ask as an auditor does."""
    capsys.readouterr()
    assert main(["show", str(folder), "--tool", "refund", "--outcome", "ok", "--json", *more]) == 0
    calls: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["calls"]
    return calls


def by_guard(session: Session) -> None:
    guarded = guard(session, "refund", refund)
    for to, amount in WANTED:
        with suppress(ContractViolation, ConnectionError):
            guarded(to=to, amount=amount)


def by_openai(session: Session) -> None:
    for number, (to, amount) in enumerate(WANTED):
        function = {"name": "refund", "arguments": json.dumps({"to": to, "amount": amount})}
        call = {"id": f"c{number}", "type": "function", "function": function}
        with suppress(ConnectionError):
            run_tool_calls(session, [call], {"refund": refund})


def by_langchain(session: Session) -> None:
    tool = govern_tool(session, StructuredTool.from_function(refund))
    for number, (to, amount) in enumerate(WANTED):
        args = {"to": to, "amount": amount}
        with suppress(ConnectionError):
            tool.invoke(ToolCall(name="refund", args=args, id=f"c{number}", type="tool_call"))


@pytest.mark.parametrize("door", [by_guard, by_openai, by_langchain])
def test_in_the_doors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], door: Callable[[Session], None]
) -> None:
    """What was refused and what failed is not among it; a file for each worker is normal."""
    signer, key = ed25519_signer(tmp_path / "e.key")
    for worker in ("one", "two"):
        with EvidenceFile(tmp_path / f"logs/{worker}.jsonl", signer=signer, record="steps") as evidence:
            session = Session(contracts=rules(), evidence=evidence, session_id=worker)
            door(session)
            session.end_session()

    calls = asked(tmp_path / "logs", capsys, "--key", key)

    assert sorted((call["args"]["to"], call["args"]["amount"]) for call in calls) == sorted(PAID * 2)
    assert {call["session"] for call in calls} == {"one", "two"}
    assert main(["show", str(tmp_path / "logs"), "--verdict", "refused"]) == 0
    refused = capsys.readouterr().out.splitlines()
    assert ['"cat"' in line for line in refused] == [True] * 2
    assert main(["verify", str(tmp_path / "logs"), "--key", key, "--rerun"]) == 0


SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}, "amount": {"type": "number"}}}
AGENT = AgentConfig(name="Refunder", instructions="Refund.", model=ModelSettings(model="any"))


def policy(event: dict[str, Any]) -> Any:
    """Let a person decide about large amounts, and pay nothing to Eve."""
    if (event["event_type"], event.get("activity_type")) != ("ActivityStarted", "refund"):
        return "ALLOW"
    wanted = event["activity_input"][0]
    if wanted["amount"] >= 300:
        return {"decision": "REQUIRE_APPROVAL", "reason": "300 and more need a person"}
    return "BLOCK" if wanted["to"] == "eve" else "ALLOW"


async def in_the_loop(folder: Path, signer: Ed25519Signer) -> None:
    """Each refund in a run of its own, under contracts, Core and a person."""
    tools = ToolRegistry()

    async def pay(arguments: Mapping[str, Any], token: object) -> dict[str, int]:
        return refund(**arguments)

    tools.register(ToolDefinition(name="refund", description="Pay.", input_schema=SCHEMA), handler=pay)
    prompt = ModelMessage(role="user", content=(ContentPart(type="text", text="Refund."),))

    async def person() -> None:
        core.approve(await core.await_approval(), note="saw the invoice", by="ada")
        core.reject(await core.await_approval(), note="too much", by="bea")

    with LocalCore(policy=policy) as core:
        options: dict[str, Any] = {"record": "steps", "signer": signer, "contracts": rules()}
        log = folder / "worker.jsonl"
        async with await create_openbox_agentrt(
            core=core, approval_poll_interval_ms=20, evidence=log, **options
        ) as governance:
            deciding = asyncio.create_task(person())
            for to, amount in [
                ("ann", 100),
                ("ann", 300),
                ("eve", 5),
                ("bob", 20),
                ("cat", 320),
                ("dan", 501),
            ]:
                model = ScriptedProvider(Call(name="refund", arguments={"to": to, "amount": amount}), "Done.")
                loop = governance.govern_loop(AgentLoop(model, tool_registry=tools))
                with suppress(GovernanceError, ConnectionError):
                    await loop.run(AGENT, [prompt])
            await deciding


async def test_in_the_loop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also who approved, what that person wrote, and which agent asked."""
    signer, key = ed25519_signer()
    await in_the_loop(tmp_path / "logs", signer)

    small, large = asked(tmp_path / "logs", capsys, "--key", key)

    assert [small["args"], small["verdict"], small["by"]] == [{"to": "ann", "amount": 100}, "allow", "core"]
    assert large["args"] == {"to": "ann", "amount": 300}
    assert (large["approver"], large["note"], large["agent"]) == ("ada", "saw the invoice", "Refunder")
    log = tmp_path / "logs/worker.jsonl"
    assert verify_file(log, key).authenticated
    report = rerun_file(log)
    assert (report.differences, report.problems, report.not_derivable) == ((), (), 0)
    assert report.on_core > 0
    assert main(["show", str(log), "--tool", "refund", "--verdict", "refused", "--wide"]) == 0
    refused = capsys.readouterr().out.splitlines()
    said = ["block by core", "rejected), bea", "contracts=at_most_total(refund"]
    assert [word in line for word, line in zip(said, refused, strict=True)] == [True] * 3
