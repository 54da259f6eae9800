"""Arguments that are hard to copy, to compare or to write down."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from agent_rt import AgentLoop

from openbox_agentrt import GovernanceBlockedError
from openbox_agentrt.errors import GovernanceUnavailableError
from openbox_agentrt.testing import Call, ScriptedProvider


class Plain:
    """Its copy looks different: its text holds its address."""


class Silent:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [Plain(), iter([1]), 10**5000],
    ids=["plain", "iterator", "huge"],
)
async def test_it_is_judged_once_and_runs(make_stage: Any, kit: Any, value: Any) -> None:
    """A call is neither judged for ever nor ended by an error of a library."""
    ran: list[Any] = []
    stage = await make_stage()
    registry = stage.governance.wrap_tool_registry(kit.registry({"take": lambda v: ran.append(v)}))

    async with stage.governance.run_scope("go"):
        await registry.execute(kit.call("take", {"v": value}))

    assert ran == [value]
    assert len([e for e in stage.events("ActivityStarted") if e["activity_type"] == "take"]) == 1


@pytest.mark.parametrize("value", [Silent(), nested(3000)], ids=["silent", "deep"])
async def test_what_cannot_be_shown_is_asked_about_and_refused(make_stage: Any, kit: Any, value: Any) -> None:
    """Core is told, and an ALLOW of what it did not see lets nothing run."""
    ran: list[Any] = []
    stage = await make_stage()
    registry = stage.governance.wrap_tool_registry(kit.registry({"take": lambda v: ran.append(v)}))

    async with stage.governance.run_scope("go"):
        with pytest.raises(GovernanceUnavailableError, match="only a part"):
            await registry.execute(kit.call("take", {"v": value}))

    assert ran == []
    assert len([e for e in stage.events("ActivityStarted") if e["activity_type"] == "take"]) == 1


async def test_arguments_that_never_stand_still_are_refused(make_stage: Any, kit: Any) -> None:
    """A hook that changes them while they are judged again does not keep Core busy for ever."""
    ran: list[Any] = []
    held: dict[str, Any] = {}

    def policy(event: dict[str, Any]) -> None:
        if event["event_type"] == "ActivityStarted" and held:
            held["n"] += 1

    stage = await make_stage(policy)
    registry = kit.registry({"take": lambda **arguments: ran.append(arguments)})

    async def rewrite(call: Any, *_: Any) -> Any:
        held.update(n=0)
        return replace(call, arguments=held)

    registry.hooks = type(registry.hooks)(pre_call=rewrite)
    loop = AgentLoop(ScriptedProvider(Call(name="take", arguments={"n": 7}), "x"), tool_registry=registry)

    with pytest.raises(GovernanceBlockedError, match="change while they are judged"):
        await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("go")])
    assert ran == []


class Query:
    """A value that is its own copy, as handles and proxies are."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __deepcopy__(self, memo: object) -> Query:
        return self

    def __repr__(self) -> str:
        return f"Query({self.text})"


class Claims(str):
    """A key that says that it is ``path``."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash("path")

    def __eq__(self, other: object) -> bool:
        return True


def change_in_place(call: Any) -> Any:
    if isinstance(call.arguments["path"], Query):
        call.arguments["path"].text = "secret"
    return call


def change_the_key(call: Any) -> Any:
    return replace(call, arguments={Claims("secret"): call.arguments["path"]})


@pytest.mark.parametrize(
    ("value", "change"),
    [
        pytest.param(Query("public"), change_in_place, id="an object that is its own copy"),
        pytest.param("public", change_the_key, id="a key that calls itself another"),
    ],
)
async def test_what_was_judged_is_what_runs(make_stage: Any, kit: Any, value: Any, change: Any) -> None:
    """A hook that rewrites the arguments has them judged again, whatever they say of themselves."""
    ran: list[Any] = []

    def policy(event: dict[str, Any]) -> str | None:
        return "BLOCK" if "secret" in str(event.get("activity_input")) else None

    async def rewrite(call: Any, *_: Any) -> Any:
        return change(call)

    stage = await make_stage(policy)
    registry = kit.registry({"take": lambda **arguments: ran.append(arguments)})
    registry.hooks = type(registry.hooks)(pre_call=rewrite)
    governed = stage.governance.wrap_tool_registry(registry)

    async with stage.governance.run_scope("go"):
        with pytest.raises(GovernanceBlockedError):
            await governed.execute(kit.call("take", {"path": value}))
    assert ran == []
