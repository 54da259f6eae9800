"""What Agent-RT refuses before anybody is asked about it is in the evidence, once, and nothing else is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agent_rt import AgentLoop, AgentRunLimits, ModelRequest, ToolCall, ToolDefinition, ToolRegistry

from openbox_agentrt._run.current import current_run
from openbox_agentrt.acel import at_most_n_times
from openbox_agentrt.evidence import read_entries
from openbox_agentrt.testing import Call, Reply, ScriptedProvider

SCHEMA = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}
OFF_SCHEMA = "the call is as its tool was listed"


def registry(ran: list[Any], gives: Any = "paid") -> ToolRegistry:
    tools = ToolRegistry()

    async def pay(arguments: Any, token: object) -> Any:
        ran.append(arguments["amount"])
        return gives

    tools.register(ToolDefinition("pay", "Pay.", SCHEMA), handler=pay)
    return tools


async def run(
    make_stage: Any, kit: Any, path: Path, steps: list[Any], **options: Any
) -> tuple[Any, list[Any]]:
    """Give what ran, and the violations."""
    ran: list[Any] = []
    gives, limits = options.pop("gives", "paid"), options.pop("limits", {})
    rules = [at_most_n_times("pay", 5)]
    stage = await make_stage(contracts=rules, evidence=path, **options)
    loop = AgentLoop(ScriptedProvider(*steps), tool_registry=registry(ran, gives))
    governed = stage.governance.govern_loop(loop)
    await governed.run(kit.agent(), [kit.user("Go on.")], **limits)
    await stage.governance.aclose()
    return ran, [one.data for one in read_entries(path) if one.type == "violation"]


@pytest.mark.parametrize(
    ("call", "args"),
    [
        pytest.param(Call(name="pay", arguments={"amount": "7"}), {"amount": "7"}, id="another type"),
        pytest.param(Call(name="pay"), {}, id="left out"),
        pytest.param(Call(name="steal", arguments={"all": True}), {"all": True}, id="no such tool"),
    ],
)
@pytest.mark.parametrize("last", [False, True], ids=["the run goes on", "it is the end of the run"])
async def test_a_call_that_the_loop_refuses(
    make_stage: Any, kit: Any, tmp_path: Path, call: Call, args: Any, last: bool
) -> None:
    """As in every door; what comes after it is judged as if it had not been there."""
    steps = [call] if last else [call, Call(name="pay", arguments={"amount": 3}), "done"]
    limits = {"limits": AgentRunLimits(max_turns=1)} if last else {}

    ran, violations = await run(make_stage, kit, tmp_path / "e.jsonl", steps, limits=limits)

    assert ran == ([] if last else [3])
    assert [(one["spec"], one["tool"], one["args"], one["blocked"]) for one in violations] == [
        (OFF_SCHEMA, call.name, args, True)
    ]


async def test_each_of_several_in_one_turn(make_stage: Any, kit: Any, tmp_path: Path) -> None:
    """The one between them that runs is none of them."""
    turn = [Call(name="pay"), Call(name="pay", arguments={"amount": 3}), Call(name="steal")]

    ran, violations = await run(make_stage, kit, tmp_path / "e.jsonl", [Reply(calls=tuple(turn)), "done"])

    assert ran == [3]
    assert [one["tool"] for one in violations] == ["pay", "steal"]


async def test_a_tool_that_answers_in_the_same_words_was_not_refused(
    make_stage: Any, kit: Any, tmp_path: Path
) -> None:
    """It ran: the loop's words alone say nothing."""
    told = {"error": {"type": "tool_argument_validation", "tool": "pay", "issues": ["no"]}}

    ran, violations = await run(
        make_stage, kit, tmp_path / "e.jsonl", [Call(name="pay", arguments={"amount": 3}), "done"], gives=told
    )

    assert (ran, violations) == ([3], [])


async def test_what_a_history_tells_of_was_refused_before(make_stage: Any, kit: Any, tmp_path: Path) -> None:
    """In another run, which has it in its evidence."""
    from agent_rt import ContentPart, ModelMessage

    told = {"error": {"type": "tool_argument_validation", "tool": "pay", "issues": ["no"]}}
    history = [
        kit.user("Pay."),
        ModelMessage("assistant", (), (ToolCall("c-1", "pay", {}),)),
        ModelMessage("tool", (ContentPart("json", data=told),), tool_call_id="c-1"),
    ]
    path = tmp_path / "e.jsonl"
    stage = await make_stage(contracts=[at_most_n_times("pay", 5)], evidence=path)
    loop = AgentLoop(ScriptedProvider("done"), tool_registry=registry([]))

    await stage.governance.govern_loop(loop).run(kit.agent(), history)
    await stage.governance.aclose()

    assert [one for one in read_entries(path) if one.type == "violation"] == []


async def test_a_tool_that_asks_a_model_hides_nothing(make_stage: Any, kit: Any, tmp_path: Path) -> None:
    """What that model asks for is not the loop's to call, whatever ids it gives."""
    path = tmp_path / "e.jsonl"
    stage = await make_stage(contracts=[at_most_n_times("pay", 5)], evidence=path)
    inner = stage.governance.wrap_provider(ScriptedProvider(Call(name="inner", id="c-2")))
    tools = registry([])

    async def ask(arguments: Any, token: object) -> str:
        await inner.complete(ModelRequest((kit.user("Sum it up."),)))
        return "short"

    tools.register(ToolDefinition("ask", "Ask.", {"type": "object"}), handler=ask)
    turn = Reply(calls=(Call(name="ask", id="c-1"), Call(name="pay", id="c-2")))
    loop = AgentLoop(ScriptedProvider(turn, "done"), tool_registry=tools)

    await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("Go on.")])
    await stage.governance.aclose()

    assert [one.data["tool"] for one in read_entries(path) if one.type == "violation"] == ["pay"]


async def test_a_run_without_a_model_keeps_no_calls(make_stage: Any) -> None:
    """It may call tools for months."""
    stage = await make_stage(contracts=[at_most_n_times("other", 5)])
    tools = stage.governance.wrap_tool_registry(registry([]))

    async with stage.governance.run_scope("Go on."):
        kept = vars(current_run())
        before = {name: len(each) for name, each in kept.items() if isinstance(each, dict | list | set)}
        await tools.execute(ToolCall("c-1", "pay", {"amount": 1}))

        assert {name: len(kept[name]) for name in before} == before
