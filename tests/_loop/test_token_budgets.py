"""A token budget holds for model calls side by side, and for those that were never measured."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agent_rt import AgentConfig, AgentLoop, ModelRequest, ModelSettings

from openbox_agentrt import ContractRefusedError
from openbox_agentrt.acel import Session, at_most_total
from openbox_agentrt.testing import Reply, ScriptedProvider


class Gate:
    """Model calls that wait until all that were let through are under way."""

    def __init__(self) -> None:
        self.begun = 0
        self.open = asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        self.begun += 1
        await self.open.wait()


async def side_by_side(stage: Any, kit: Any, settings: ModelSettings, count: int = 10) -> int:
    """How many of so many agents get their answer, when all ask before one is answered."""
    gate = Gate()
    answer = Reply(text="x", input_tokens=500, output_tokens=490, delay_seconds=1)
    agent = AgentConfig("helper", "You help.", settings)

    async def one() -> None:
        loop = stage.governance.govern_loop(AgentLoop(ScriptedProvider(answer, sleep=gate)))
        await loop.run(agent, [kit.user("hi")])

    async with stage.governance.run_scope(session_id="s"):
        runs = [asyncio.ensure_future(one()) for _ in range(count)]
        refused: set[asyncio.Future[None]] = set()
        while gate.begun + len(refused) < count:
            await asyncio.sleep(0)
            refused = {run for run in runs if run.done()}
        gate.open.set()
        ended = await asyncio.gather(*runs, return_exceptions=True)
    assert all(error is None or isinstance(error, ContractRefusedError) for error in ended)
    return ended.count(None)


@pytest.mark.parametrize(
    ("limit", "settings", "estimate", "through"),
    [
        pytest.param(1000, ModelSettings("m", max_output_tokens=990), None, 1, id="what the request says"),
        pytest.param(1000, ModelSettings("m"), None, 1, id="nothing is said"),
        pytest.param(5000, ModelSettings("m", max_output_tokens=990), None, 5, id="several fit"),
        pytest.param(50_000, ModelSettings("m"), None, 10, id="all fit"),
        pytest.param(1000, ModelSettings("m", max_output_tokens=990), 250, 4, id="what the contract says"),
    ],
)
async def test_calls_side_by_side(
    make_stage: Any, kit: Any, limit: int, settings: ModelSettings, estimate: int | None, through: int
) -> None:
    """Each is taken for what it may become until it is measured."""
    contract = at_most_total("llm_call", "total_tokens", limit, estimate=estimate)
    stage = await make_stage(contracts=[contract])

    assert await side_by_side(stage, kit, settings) == through


async def test_one_after_another_nothing_changes(make_stage: Any, kit: Any) -> None:
    """Alone, a call is let through while anything is left, however much it may say."""
    stage = await make_stage(contracts=[at_most_total("llm_call", "total_tokens", 1000)])
    provider = stage.governance.wrap_provider(
        ScriptedProvider(respond=lambda request: Reply(text="x", input_tokens=400, output_tokens=90))
    )
    request = ModelRequest((kit.user("hi"),), max_output_tokens=8000)

    async with stage.governance.run_scope():
        for _ in range(3):
            await provider.complete(request)
        with pytest.raises(ContractRefusedError):
            await provider.complete(request)


@pytest.mark.parametrize(
    ("error", "left"),
    [
        pytest.param(OSError("reset"), True, id="nothing came"),
        pytest.param(TimeoutError(), False, id="nobody knows"),
        pytest.param(asyncio.CancelledError(), False, id="cancelled"),
    ],
)
async def test_a_call_that_failed(make_stage: Any, kit: Any, error: BaseException, left: bool) -> None:
    """Counts what was sent if nothing came of it, else what it may have become."""
    session = Session(contracts=[at_most_total("llm_call", "total_tokens", 1000)])
    stage = await make_stage(contracts=lambda: session)

    def fails(request: Any) -> Any:
        raise error

    provider = stage.governance.wrap_provider(ScriptedProvider(respond=fails))
    async with stage.governance.run_scope():
        with pytest.raises(type(error)):
            await provider.complete(ModelRequest((kit.user("hello"),), max_output_tokens=1000))
        assert session.reserve("llm_call", {"total_tokens": 999}).allowed is left
        assert not session.reserve("llm_call", {"total_tokens": 1000}).allowed


@pytest.mark.parametrize("read", [False, True])
async def test_a_stream_that_is_left_early(make_stage: Any, kit: Any, read: bool) -> None:
    """What it has said nobody measures, so that leaving early saves nothing."""
    session = Session(contracts=[at_most_total("llm_call", "total_tokens", 1000)])
    stage = await make_stage(contracts=lambda: session)
    provider = stage.governance.wrap_provider(ScriptedProvider(Reply(text="a b c d e")))
    async with stage.governance.run_scope():
        stream = provider.stream(ModelRequest((kit.user("hello"),), max_output_tokens=1000))
        if read:
            await anext(stream)
        await stream.aclose()
        assert session.reserve("llm_call", {"total_tokens": 1}).allowed is not read
