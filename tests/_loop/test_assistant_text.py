"""What a model says is an event where a contract names it, whole or in a stream."""

from __future__ import annotations

from typing import Any

import pytest
from agent_rt import AgentLoop

from openbox_agentrt import ContractRefusedError
from openbox_agentrt.acel import (
    at_most_n_times,
    chain_precedence,
    matching,
    must_precede,
    never,
    only,
)
from openbox_agentrt.testing import Call, Reply, ScriptedProvider

SECRET = never(matching("assistant_text", "launch code", field="text"))
BESIDE = never(matching("assistant_text", ".", field="tools"))


def asks(text: str) -> Reply:
    return Reply(text=text, calls=(Call(name="pay"),))


class Talk:
    """A loop with one tool, run whole or streamed."""

    def __init__(self, stage: Any, kit: Any, streaming: bool, *steps: Any) -> None:
        self.kit = kit
        self.streaming = streaming
        self.paid = 0
        self.heard: list[Any] = []
        registry = kit.registry({"pay": self._pay})
        self.loop = stage.governance.govern_loop(AgentLoop(ScriptedProvider(*steps), tool_registry=registry))

    async def run(self) -> Any:
        messages = [self.kit.user("go")]
        if self.streaming:
            return await self.loop.run_streaming(self.kit.agent(), messages, self._hear)
        return await self.loop.run(self.kit.agent(), messages)

    async def _hear(self, event: Any) -> None:
        self.heard.append(event)

    def _pay(self) -> str:
        self.paid += 1
        return "paid"


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def streaming(request: Any) -> bool:
    return bool(request.param)


async def test_what_must_not_be_said_is_not_used(make_stage: Any, kit: Any, streaming: bool) -> None:
    """Neither is it handed on in pieces, nor does what was asked for beside it run."""
    stage = await make_stage(contracts=[SECRET])
    talk = Talk(stage, kit, streaming, asks("The launch code is 7."), "done")

    with pytest.raises(ContractRefusedError):
        await talk.run()

    assert talk.paid == 0
    assert "launch" not in repr(talk.heard)


async def test_text_beside_a_call(make_stage: Any, kit: Any, streaming: bool) -> None:
    """The event says which tools are called in the same breath; alone, the text is fine."""
    stage = await make_stage(contracts=[BESIDE])

    with pytest.raises(ContractRefusedError):
        await Talk(stage, kit, streaming, asks("I pay now."), "done").run()
    await Talk(stage, kit, streaming, Call(name="pay"), "done").run()


async def test_what_was_said_allows(make_stage: Any, kit: Any, streaming: bool) -> None:
    """A price has to be named before it is paid."""
    said = matching("assistant_text", "it costs 5", field="text")
    stage = await make_stage(contracts=[must_precede(said, "pay", since="user_prompt")])
    talk = Talk(stage, kit, streaming, asks("It costs 5."), "done")

    await talk.run()

    assert talk.paid == 1
    silent = Talk(stage, kit, streaming, Call(name="pay"), "done")
    with pytest.raises(ContractRefusedError):
        await silent.run()


async def test_it_is_no_event_unless_it_is_named(make_stage: Any, kit: Any, streaming: bool) -> None:
    """Rules that do not know of it count and see what they did: patterns, `only`, what comes before what."""
    contracts = [
        chain_precedence("llm_call", "pay"),
        at_most_n_times("*", 6),
        only("pay"),
    ]
    stage = await make_stage(contracts=contracts)
    talk = Talk(stage, kit, streaming, asks("I pay."), "done")

    await talk.run()

    assert talk.paid == 1


async def test_only_lets_it_pass(make_stage: Any, kit: Any, streaming: bool) -> None:
    """It is no tool."""
    stage = await make_stage(contracts=[only("pay"), SECRET])
    talk = Talk(stage, kit, streaming, asks("I pay."), "done")

    await talk.run()

    assert talk.paid == 1


async def test_watching_only(make_stage: Any, kit: Any, streaming: bool) -> None:
    """The decision says what would have been refused."""
    decisions: list[Any] = []
    stage = await make_stage(contracts=[SECRET], contracts_mode="shadow", on_decision=decisions.append)

    await Talk(stage, kit, streaming, asks("The launch code is 7."), "done").run()

    (told,) = [decision for decision in decisions if decision.event == "assistant_text"]
    assert told.acel == "shadow"
