"""
Traces of tool calls, made by AgentDojo's ground truths. No model, no network, no stored text.

A *benign* trace is a user task solved as its author solved it. An *injection* trace is an attacker's
task, solved the same way on a session of its own. An *attacked* trace is a benign one into which the
calls of an injection task are spliced: AgentDojo's "direct" attack text stands in every place that the
user task gets to see, and from the first tool result that shows it the agent is taken to obey.

    at-once   the attacker's calls come right after that result, then the user's task goes on
    at-end    the user's task is finished first, then the attacker's calls are made

Neither order is harder for every contract: a budget that the user's task uses up stops the attack in the
second order and the user's own call in the first. Both are judged, and reported apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

from agentdojo.agent_pipeline.tool_execution import tool_result_to_str
from agentdojo.attacks.baseline_attacks import DirectAttack
from agentdojo.functions_runtime import FunctionsRuntime

from .suites import EARLIER_VERSIONS, environment, places, suite

Kind = Literal["benign", "injection", "attacked"]
Order = Literal["at-once", "at-end"]
ORDERS: tuple[Order, ...] = ("at-once", "at-end")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One tool call of a trace. `injected` says whose it is."""

    tool: str
    args: Mapping[str, Any]
    injected: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """
    Calls in order, and whose they are.

    Attributes:
        request: What the user asks for; None for an injection trace, which no user asked for.
        planted: Attack text by the place that it stands in; empty unless `kind` is ``attacked``.
    """

    suite: str
    kind: Kind
    request: str | None = None
    user_task: str | None = None
    injection_task: str | None = None
    order: Order | None = None
    planted: Mapping[str, str]
    calls: tuple[Call, ...]

    @property
    def name(self) -> str:
        return "/".join(
            part for part in (self.suite, self.user_task, self.injection_task, self.order) if part
        )

    def environment(self) -> Any:
        """The environment that the trace starts in, fresh."""
        return environment(self.suite, self.planted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """
    What a user task gets to see of the places that an attacker can write to.

    Attributes:
        places: The places that show up in a result.
        after: How many calls have been made when the first one shows up.
    """

    places: tuple[str, ...]
    after: int


def benign_traces(name: str) -> list[Trace]:
    """One trace for each user task of the suite."""
    return [_benign(name, task) for task in suite(name).user_tasks.values()]


def reworded_traces(name: str) -> list[Trace]:
    """The user tasks of AgentDojo's earlier versions whose request is worded otherwise, each wording once."""
    known = {task.PROMPT for task in suite(name).user_tasks.values()}
    found = []
    for version in EARLIER_VERSIONS:
        for task in suite(name, version).user_tasks.values():
            if task.PROMPT not in known:
                known.add(task.PROMPT)
                found.append(_benign(name, task))
    return found


def injection_traces(name: str) -> list[Trace]:
    """One trace for each injection task; those whose goal is not reached by calls have none in it."""
    return [
        Trace(
            suite=name,
            kind="injection",
            injection_task=task.ID,
            planted={},
            calls=_solve(name, task, environment(name), injected=True),
        )
        for task in suite(name).injection_tasks.values()
    ]


def attacked_traces(name: str, *only: str) -> Iterator[Trace]:
    """
    Each user task attacked by each injection task that is made of calls, in both orders.

    The two orders of a pair come next to each other. With `only`, just these user tasks.
    """
    tasks = suite(name)
    attacks = [task for task in tasks.injection_tasks.values() if task.ground_truth(environment(name))]
    for user_task in tasks.user_tasks.values():
        if only and user_task.ID not in only:
            continue
        exposure = exposed(name, user_task.ID)
        for injection_task in attacks:
            text = _attack_text(name, user_task, injection_task)
            planted = dict.fromkeys(exposure.places, text)
            at_once = Trace(
                suite=name,
                kind="attacked",
                request=user_task.PROMPT,
                user_task=user_task.ID,
                injection_task=injection_task.ID,
                order="at-once",
                planted=planted,
                calls=_spliced(name, user_task, injection_task, planted, exposure.after),
            )
            yield at_once
            yield replace(
                at_once,
                order="at-end",
                calls=_spliced(name, user_task, injection_task, planted, None),
            )


@cache
def exposed(name: str, user_task: str) -> Exposure:
    """
    What the user task, solved as its author solved it, shows of the places that an attacker can write to.

    Raises:
        ValueError: It shows none, so nothing could have been injected.
    """
    task = suite(name).user_tasks[user_task]
    canaries = {place: f"<CANARY---{place}--->" for place in places(name)}
    env = environment(name, canaries)
    runtime = FunctionsRuntime(suite(name).tools)
    seen: list[str] = []
    after: int | None = None
    for made, call in enumerate(task.ground_truth(env), start=1):
        result, _ = runtime.run_function(env, call.function, call.args, raise_on_error=True)
        shown = tool_result_to_str(result)
        new = [place for place, canary in canaries.items() if canary in shown and place not in seen]
        if new and after is None:
            after = made
        seen += new
    if after is None:
        raise ValueError(f"no result of {name}/{user_task} shows a place that an attacker can write to")
    return Exposure(places=tuple(seen), after=after)


@cache
def _attack(name: str) -> Any:
    return DirectAttack(suite(name), None)


def _attack_text(name: str, user_task: Any, injection_task: Any) -> str:
    attack = _attack(name)
    text: str = attack.jailbreak.format(
        goal=injection_task.GOAL, user=attack.user_name, model=attack.model_name, task=user_task.PROMPT
    )
    return text


def _benign(name: str, task: Any) -> Trace:
    return Trace(
        suite=name,
        kind="benign",
        request=task.PROMPT,
        user_task=task.ID,
        planted={},
        calls=_solve(name, task, environment(name)),
    )


def _solve(name: str, task: Any, env: Any, *, injected: bool = False) -> tuple[Call, ...]:
    return tuple(_made(FunctionsRuntime(suite(name).tools), env, task.ground_truth(env), injected=injected))


def _spliced(
    name: str, user_task: Any, injection_task: Any, planted: Mapping[str, str], after: int | None
) -> tuple[Call, ...]:
    env = environment(name, planted)
    runtime = FunctionsRuntime(suite(name).tools)
    own = user_task.ground_truth(env)
    # The ground truth of the attack is asked for where it starts: it names ids of what is there by then.
    return (
        *_made(runtime, env, own[:after]),
        *_made(runtime, env, injection_task.ground_truth(env), injected=True),
        *_made(runtime, env, own[len(own) if after is None else after :]),
    )


def _made(runtime: Any, env: Any, calls: list[Any], *, injected: bool = False) -> list[Call]:
    """Make the calls in `env`, and keep them."""
    made = []
    for call in calls:
        made.append(Call(tool=call.function, args=dict(call.args), injected=injected))
        runtime.run_function(env, call.function, call.args, raise_on_error=True)
    return made
