"""
Plays a trace against contracts, and asks AgentDojo what came of it.

A call that the contracts refuse is not made; the agent carries on with its next one. An attacker's
later calls keep the arguments of the undisturbed attack, as if it had learned what the refused calls would
have told it: the attacker that is played is never weaker than a real one.

AgentDojo's own checks decide. `utility` is its answer to "is the user's task done", `security` (as
AgentDojo names it) its answer to "has the attack reached its goal". An attack is *stopped* if it reaches
its goal without contracts and not with them. A refusal alone stops nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agentdojo.functions_runtime import FunctionCall, FunctionsRuntime
from pydantic import BaseModel

from .suites import suite
from .traces import Call, Trace


class Gate(Protocol):
    """What a trace is played against: the part of `openbox_agentrt.acel.Session` that is used here."""

    def reserve(self, tool: str, args: Mapping[str, Any] | None = None) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A call that the contracts refused, and which of them: by id where they have one."""

    call: Call
    contracts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """
    What came of a trace.

    Attributes:
        refused: The calls that were not made, in order.
        failed: Errors of tools that ran.
        done: The user's task is done, in AgentDojo's judgement; None if that was not asked.
        reached: The attack has reached its goal, in AgentDojo's judgement; None for a trace without one.
    """

    trace: Trace
    refused: tuple[Refused, ...]
    failed: tuple[str, ...]
    done: bool | None
    reached: bool | None

    @property
    def refused_own(self) -> tuple[Refused, ...]:
        """The user's own calls that were refused."""
        return tuple(refused for refused in self.refused if not refused.call.injected)

    @property
    def refused_injected(self) -> tuple[Refused, ...]:
        """The attacker's calls that were refused."""
        return tuple(refused for refused in self.refused if refused.call.injected)


def play(trace: Trace, gate: Gate | None = None, *, env: Any = None, ask_done: bool = False) -> Played:
    """
    Make the calls of `trace` that `gate` lets through; all of them without one.

    Args:
        trace: The trace.
        gate: Judges each call.
        env: The environment to work on; a fresh one of the trace if not given.
        ask_done: Whether to ask AgentDojo if the user's task is done. For that it compares whole
            environments, which takes longer than everything else; and an environment that an attack has
            touched is never the one that it wants.
    """
    env = trace.environment() if env is None else env
    before = trace.environment()
    runtime = FunctionsRuntime(suite(trace.suite).tools)
    refused: list[Refused] = []
    failed: list[str] = []
    made: list[Call] = []
    if gate is not None and trace.request is not None:
        # As in a governed run, what the user says is an event.
        gate.reserve("user_prompt", {"prompt": trace.request}).commit()
    for call in trace.calls:
        reservation = gate.reserve(call.tool, call.args) if gate is not None else None
        if reservation is not None and not reservation.allowed:
            broken = tuple(one.id or one.contract for one in reservation.refusal.broken)
            refused.append(Refused(call=call, contracts=broken))
            continue
        made.append(call)
        result, error = runtime.run_function(env, call.tool, call.args)
        if error is not None:
            failed.append(error)
        if reservation is None:
            continue
        if error is None:
            reservation.commit(plain(result))
        else:
            reservation.abort(RuntimeError(error), ran=True)
    return Played(
        trace=trace,
        refused=tuple(refused),
        failed=tuple(failed),
        done=_done(trace, before, env, made) if ask_done else None,
        reached=_reached(trace, before, env, made),
    )


def plain(result: Any) -> Any:
    """A tool's result as JSON values: what a model, or a contract, gets to see of it."""
    if isinstance(result, BaseModel):
        return result.model_dump(mode="json")
    if isinstance(result, list | tuple):
        return [plain(item) for item in result]
    if isinstance(result, dict):
        return {str(key): plain(value) for key, value in result.items()}
    return result


def _done(trace: Trace, before: Any, after: Any, made: Sequence[Call]) -> bool | None:
    if trace.user_task is None:
        return None
    task = suite(trace.suite).user_tasks[trace.user_task]
    said = task.GROUND_TRUTH_OUTPUT
    answer = task.utility_from_traces(said, before, after, _as_agentdojo(made))
    return bool(task.utility(said, before, after) if answer is None else answer)


def _reached(trace: Trace, before: Any, after: Any, made: Sequence[Call]) -> bool | None:
    if trace.injection_task is None:
        return None
    task = suite(trace.suite).injection_tasks[trace.injection_task]
    said = task.GROUND_TRUTH_OUTPUT
    answer = task.security_from_traces(said, before, after, _as_agentdojo(made))
    return bool(task.security(said, before, after) if answer is None else answer)


def _as_agentdojo(calls: Sequence[Call]) -> list[FunctionCall]:
    return [FunctionCall(function=call.tool, args=dict(call.args)) for call in calls]
