"""A secret that Core redacts once is looked for everywhere afterwards."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from agent_rt import AgentLoop, ContentPart, ModelMessage, ToolCall

from openbox_agentrt import create_openbox_agentrt, current_run
from openbox_agentrt._run.contract_events import signal_violation
from openbox_agentrt.local_core import LocalCore
from openbox_agentrt.testing import Call, Fault, FaultyCore, Reply, ScriptedProvider

SECRET = "ZETA-4471-SECRET"
KINDS = ("plain", "split", "media", "system", "earlier", "tool result", "json part", "media url", "tool id")


def without(value: Any) -> Any:
    match value:
        case str():
            return value.replace(SECRET, "[hidden]")
        case dict():
            return {key: without(item) for key, item in value.items()}
        case list():
            return [without(item) for item in value]
    return value


def hide(event: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Core's guardrail: it takes the secret out of every input and output that it is shown."""
    for key in ("activity_input", "activity_output", "signal_args"):
        if SECRET in json.dumps(event.get(key)):
            return {"validation_passed": True, "redacted_input": without(event[key])}
    return None


async def ignored(event: Any) -> None:
    pass


def text(value: str) -> ContentPart:
    return ContentPart("text", value)


def picture(name: str) -> ContentPart:
    return ContentPart("image", data={"url": f"https://pictures.test/{name}"}, mime_type="image/png")


def conversation(kind: str) -> list[ModelMessage]:
    """Messages with the secret in the last prompt, and in the place that `kind` names."""
    last = ModelMessage("user", (text(f"my code is {SECRET} ok"),))
    before: list[ModelMessage] = []
    match kind:
        case "split":
            last = ModelMessage("user", (text("my code is ZETA-44"), text("71-SECRET ok")))
        case "media":
            last = ModelMessage("user", (text(f"see {SECRET}"), picture("a"), text("and that")))
        case "media url":
            last = ModelMessage("user", (*last.content, picture(SECRET)))
        case "json part":
            last = ModelMessage("user", (*last.content, ContentPart("json", data={"k": [SECRET]})))
        case "system":
            before = [ModelMessage("system", (text(f"the code of the user is {SECRET}"),))]
        case "earlier":
            before = [
                ModelMessage("user", (text(f"it was {SECRET}"),)),
                ModelMessage("assistant", (text(f"you said {SECRET}"),)),
            ]
        case "tool result" | "tool id":
            id = f"call {SECRET}" if kind == "tool id" else "call_0"
            call = ToolCall(id, "look", {"q": SECRET, "deep": {"er": [SECRET]}})
            result = ContentPart("json", data={"r": f"x {SECRET} y", SECRET: 1})
            before = [
                ModelMessage("user", (text("look"),)),
                ModelMessage("assistant", (), tool_calls=(call,)),
                ModelMessage("tool", (result,), tool_call_id=id),
            ]
    return [*before, last]


@pytest.mark.parametrize("streamed", [False, True], ids=["complete", "streamed"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_redacted_secret_is_nowhere_afterwards(
    make_stage: Any, kit: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, streamed: bool
) -> None:
    """In no request, tool, context, event, record, log, decision or result; Core itself was asked once."""
    caplog.set_level(logging.DEBUG)
    evidence = tmp_path / "evidence.jsonl"
    decisions: list[Any] = []
    reached: list[Any] = []
    stage = await make_stage(
        core=LocalCore(guardrails=hide),
        evidence=str(evidence),
        record="all",
        redact_outputs=True,
        on_decision=decisions.append,
    )

    def look(**arguments: Any) -> Any:
        reached.append(arguments)
        return arguments

    def fails(**arguments: Any) -> None:
        raise ValueError(f"bad {arguments}")

    registry = kit.registry(
        {"look": look, "fails": fails},
        fields={"error_behavior": "return_error"},
    )

    async def context(arguments: Any, context: Any) -> str:
        reached.append(context.request_context)
        return "fine"

    registry.register(kit.definition("context"), contextual_handler=context)
    calls = (
        Call(name="look", arguments={"q": f"a {SECRET}", "deep": {"er": [SECRET]}}),
        Call(name="fails", arguments={"q": SECRET}),
        Call(name="context"),
    )
    provider = ScriptedProvider(Reply(text=f"so {SECRET}", calls=calls), f"the code is {SECRET} !")
    loop = stage.governance.govern_loop(AgentLoop(provider, tool_registry=registry))
    if streamed:
        result = await loop.run_streaming(kit.agent(), conversation(kind), ignored)
    else:
        result = await loop.run(kit.agent(), conversation(kind))
    await stage.governance.aclose()

    asked = [event["event_type"] for event in stage.events() if SECRET in json.dumps(event)]
    places = {
        "events": asked[1:],
        "requests": [request.messages for request in provider.requests],
        "tools": reached,
        "decisions": decisions,
        "evidence": evidence.read_text(),
        "log": [str(vars(record)) for record in caplog.records],
        "result": result.final_response,
    }
    assert asked == ["SignalReceived"]
    assert reached
    assert [place for place, found in places.items() if SECRET in repr(found)] == []
    if kind == "split":
        assert "71-SECRET" not in repr(places["requests"])


def queue_a_report() -> None:
    """Queue a report, as the refusal of another call does, so that the next one has to wait behind it."""
    run = current_run()
    assert run is not None
    signal_violation(run, "other", ("spec",), "refused")


async def test_an_output_is_redacted_behind_a_report_that_waits(make_stage: Any, kit: Any) -> None:
    """The answer that redacts a result is heard although something was still to be told before."""
    stage = await make_stage(core=LocalCore(guardrails=hide), redact_outputs=True)

    def read() -> str:
        queue_a_report()
        return f"it says {SECRET}"

    provider = ScriptedProvider(Call(name="read"), "fine")
    loop = AgentLoop(provider, tool_registry=kit.registry({"read": read}))
    await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("read it")])

    assert SECRET not in repr(provider.requests[1].messages)


@pytest.mark.leaves_rows_open("core is away when they are closed")
@pytest.mark.parametrize(("policy", "reaches_the_model"), [("fail_closed", False), ("fail_open", True)])
async def test_an_output_that_core_could_not_redact(
    kit: Any, monkeypatch: pytest.MonkeyPatch, policy: Any, reaches_the_model: bool
) -> None:
    """Under fail_closed it is withheld, as an input would be; under fail_open it passes, Core being away."""
    monkeypatch.setattr("openbox_agentrt._core.gate.FIRST_BACKOFF", 0.001)
    with FaultyCore(LocalCore(guardrails=hide)) as faulty:

        def read() -> str:
            faulty.plan(*[Fault.respond(503)] * (4 if policy == "fail_closed" else 20), path="/evaluate")
            return f"it says {SECRET}"

        governance = await create_openbox_agentrt(
            environ={},
            api_url=faulty.url,
            api_key=faulty.api_key,
            on_api_error=policy,
            redact_outputs=True,
            install_instrumentation=False,
        )
        provider = ScriptedProvider(Call(name="read"), "fine")
        loop = AgentLoop(provider, tool_registry=kit.registry({"read": read}))
        async with governance:
            await governance.govern_loop(loop).run(kit.agent(), [kit.user("read it")])

        assert (SECRET in repr(provider.requests[1].messages)) is reaches_the_model


async def test_a_held_stream_is_judged_whatever_the_telemetry(make_stage: Any, kit: Any) -> None:
    """With reports in the background, nobody would hear that the response is refused."""

    def policy(event: Mapping[str, Any]) -> str | None:
        said = event.get("activity_output")
        return "BLOCK" if isinstance(said, dict) and said.get("completion") == "no good" else None

    stage = await make_stage(policy, buffer_streams=True, telemetry="ordered")
    seen: list[Any] = []

    async def see(event: Any) -> None:
        seen.append(event)

    loop = stage.governance.govern_loop(AgentLoop(ScriptedProvider("no good")))

    await loop.run_streaming(kit.agent(), [kit.user("hi")], see)

    assert "no good" not in repr(seen)
