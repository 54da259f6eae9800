"""
A governed AgentLoop: a copy whose parts ask first.

The copy is made with `copy.copy` and a class of its own that overrides `run` and guards attribute writes.
Building it through the constructor would double the default guardrails, lose what subclasses add and wrap
the Toolbase filter twice. What is shared stays shared by identity: budgets, rate limits, stores,
guardrails. Attributes that are re-assigned on the original later are not seen by the copy; tools registered
on its registry are.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from agent_rt import AgentConfig, AgentLoop, AgentRunResult, StructuredOutputValidationError

from .._activity.screening import screen_prompt
from .._run.paused.suspended_runs import marked
from .._run.scope import RunScope
from ..errors import GovernanceBlockedError
from ..lifecycle_events import LLM_ACTIVITY
from ..message_extraction import last_user_text
from .attributes import PARTS, govern_attribute, governing_judges
from .refused_calls import note_refused_calls
from .stand_in import is_judged_by

if TYPE_CHECKING:
    from agent_rt import ToolSideEffect

    from .._run.runs import Runs
    from .._run.state import RunState

L = TypeVar("L", bound=AgentLoop)
T = TypeVar("T")

Run = Callable[..., Awaitable[AgentRunResult]]
"""A loop's own `run`, bound to the loop."""

ENTRY_POINTS = ("run", "run_streaming", "_run_impl", "compile_plan")
"""Methods that, patched on one instance, would run on the original instead of the copy."""


class GovernedAgentLoop(AgentLoop):
    """
    An `AgentLoop` whose prompt, model calls and tool calls are judged before they happen.

    Made by ``governance.govern_loop(loop)``; it is also an instance of the type of `loop`. A provider,
    registry, executor or idempotency store that is set on it later is governed too; replacing `run` is
    refused.
    """

    __slots__ = ()  # the layout has to stay that of the wrapped loop's class

    __judges__: tuple[Runs, ...] = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if not cls.__judges__:
            raise TypeError(
                "a GovernedAgentLoop is made by governance.govern_loop(loop): nobody would judge this one"
            )
        make = super().__new__
        return make(cls) if make is object.__new__ else make(cls, *args, **kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("run", "run_streaming"):
            raise TypeError(
                f"{name!r} of a governed loop cannot be replaced: patch the original, then govern it"
            )
        super().__setattr__(name, govern_attribute(self, name, value))


def govern_loop(loop: L, judge: Runs, *, entry_points: Collection[str] = ENTRY_POINTS) -> L:
    """
    Make a governed copy of `loop`; `loop` itself if `judge` governs it already.

    Args:
        entry_points: Methods that must not be patched on the instance.

    Raises:
        TypeError: `loop` is no AgentLoop, or has a method patched in a way that would step around the copy.
    """
    if not isinstance(loop, AgentLoop):
        raise TypeError(f"govern_loop needs an agent_rt.AgentLoop, not {type(loop).__name__}")
    if judge in governing_judges(loop):
        return loop
    clone = copy.copy(loop)
    if clone is loop or type(clone) is not type(loop):
        raise TypeError(
            f"{type(loop).__name__} cannot be governed: copying it gives no {type(loop).__name__}"
        )
    object.__setattr__(clone, "__class__", _governed_class(type(loop), judge))
    _rebind_methods(clone, loop, entry_points)
    _govern_parts(clone)
    return clone


def _govern_parts(clone: AgentLoop) -> None:
    for name in PARTS:
        value = getattr(clone, name, None)
        if value is None:
            continue
        governed = govern_attribute(clone, name, value)
        if governed is value:
            continue
        # Not setattr: a subclass may forbid writes, and this is still its construction.
        object.__setattr__(clone, name, governed)
        if not all(is_judged_by(getattr(clone, name), judge) for judge in governing_judges(clone)):
            raise TypeError(f"{name!r} of a {type(clone).__name__} cannot be governed: it does not stay set")


def _rebind_methods(clone: Any, loop: AgentLoop, entry_points: Collection[str]) -> None:
    """Let bound methods that the original keeps in its attributes act on the copy."""
    for name, value in tuple(vars(clone).items()):
        if inspect.ismethod(value) and value.__self__ is loop:
            if name == "run":
                # Left in the instance, it would shadow the governed `run`.
                del vars(clone)[name]
                vars(clone)["__openbox_run__"] = value.__func__.__get__(clone)
            else:
                vars(clone)[name] = value.__func__.__get__(clone)
        elif name in entry_points:
            raise TypeError(
                f"{name!r} is patched on this {type(loop).__name__} with something that would run on the "
                f"original: patch the class instead"
            )


def _governed_class(cls: type[Any], judge: Runs) -> type[Any]:
    made = judge.loop_classes.get(cls)
    if made is None:
        governed_before = issubclass(cls, GovernedAgentLoop)
        namespace = {
            "__slots__": (),
            "__module__": cls.__module__,
            "__judges__": (*getattr(cls, "__judges__", ()), judge),
            "run": _governed_run(cls, judge),
        }
        name = cls.__name__ if governed_before else f"Governed{cls.__name__}"
        bases = (cls,) if governed_before else (GovernedAgentLoop, cls)
        made = judge.loop_classes[cls] = type(name, bases, namespace)
    return made


def _governed_run(cls: type[Any], judge: Runs) -> Run:
    inner = cls.run

    @functools.wraps(inner)
    async def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        patched = vars(self).get("__openbox_run__")
        return await run_governed(self, judge, patched or functools.partial(inner, self), args, kwargs)

    return run


async def run_governed(
    loop: AgentLoop,
    judge: Runs,
    inner: Run,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> AgentRunResult:
    """
    Run `inner` once, inside a run scope.

    Args:
        loop: The governed copy that `inner` runs on.
        inner: Its ungoverned `run`.
    """
    # Written around the guard (``vars(loop)["provider"] = ...``) or by a subclass: governed now, or refused.
    _govern_parts(loop)
    agent: AgentConfig | None = args[0] if args else kwargs.get("agent")
    messages = args[1] if len(args) > 1 else kwargs.get("messages", ())
    checkpoint = kwargs.get("resume_checkpoint")
    if checkpoint is not None:
        messages = checkpoint.messages
    scope = RunScope(
        judge,
        functools.partial(
            screen_prompt,
            messages=messages,
            instructions=getattr(agent, "instructions", None) or "",
            max_output_tokens=getattr(getattr(agent, "model", None), "max_output_tokens", None),
        ),
        prompt=last_user_text(messages),
        agent_name=getattr(agent, "name", None),
        session_id=_session_id(kwargs.get("tool_context")),
        subject=_subject(judge.options.subject, agent, messages, kwargs.get("tool_context")),
        checkpoint=checkpoint,
        pausable=True,
    )
    async with scope as run:
        was_cancelled = _watch_cancellation() if _waits_for_helpers(loop, kwargs) else None
        if _takes_stop_requested(inner):
            asked = (run.must_stop, was_cancelled, kwargs.get("stop_requested"))
            kwargs["stop_requested"] = _any_of([ask for ask in asked if ask is not None])
        run.estimate_cost = loop.cost_estimator
        run.side_effect_of = functools.partial(_side_effect, loop)
        work = inner(*args, **kwargs)
        if was_cancelled is not None:
            work = _not_losing_cancellation(work, was_cancelled)
        result = await _structured(run, work)
        if run.unjudged_calls:
            note_refused_calls(run, result.messages)
        if run.paused and result.termination_reason == "waiting_for_approval":
            if judge.parking is not None:
                await judge.parking.park(run, result.messages)
            result = marked(result, run)
        run.result = result
    return result


async def _structured(run: RunState, work: Awaitable[T]) -> T:
    """
    Await `work`, and say so where it fails because its last answer is not what the model gave.

    Raises:
        GovernanceBlockedError: The run has to end with structured output, and that was withheld or redacted.
    """
    try:
        return await work
    except StructuredOutputValidationError:
        if run.altered_answer is None:
            raise
        raise GovernanceBlockedError(run.altered_answer, event=LLM_ACTIVITY, ran=True) from None


def _waits_for_helpers(loop: AgentLoop, kwargs: Mapping[str, Any]) -> bool:
    """
    Tell whether Agent-RT takes every step of the run in a helper task, as it does under a limit.

    Only then can it lose a cancellation. Without helpers the provider works in the run's own task, and some
    libraries cancel that for a timeout of their own without taking the request back: not ours to act upon.
    """
    limits = kwargs.get("limits")
    return (
        kwargs.get("cancellation_token") is not None
        or getattr(limits, "timeout_seconds", None) is not None
        or loop.deadline is not None
    )


def _watch_cancellation() -> Callable[[], bool]:
    """Give what tells whether the calling task has been cancelled since."""
    task = asyncio.current_task()
    before = 0 if task is None else task.cancelling()
    return lambda: task is not None and task.cancelling() > before


async def _not_losing_cancellation(work: Awaitable[T], was_cancelled: Callable[[], bool]) -> T:
    """
    Await `work`, and do not return when its task was cancelled meanwhile.

    Agent-RT waits for its helper tasks under ``suppress(CancelledError)``, where a cancellation that
    arrives at that moment is lost: the run would go on to its end as if nobody had asked it to stop. So
    Agent-RT is also told to stop before the next step.
    """
    value = await work
    if was_cancelled():
        raise asyncio.CancelledError
    return value


def _side_effect(loop: AgentLoop, tool: str) -> ToolSideEffect | None:
    """Look up what the registry declares of a tool, which the loop may well run through its executor."""
    registry = loop.tool_registry
    if registry is None:
        return None
    try:
        return registry.get(tool).definition.side_effect
    except KeyError:
        return None


def _session_id(tool_context: object) -> str | None:
    # Agent-RT's own name for it, which its approval manager uses as well.
    value = tool_context.get("session_id") if isinstance(tool_context, Mapping) else None
    return value if isinstance(value, str) and value else None


def _subject(
    of: Callable[..., Mapping[str, Any]] | None, agent: Any, messages: Any, tool_context: object
) -> Mapping[str, Any] | None:
    """Say what a run is about: what its tool context says, else what the option does."""
    if isinstance(tool_context, Mapping) and tool_context.get("subject") is not None:
        subject: Mapping[str, Any] = tool_context["subject"]
        return subject
    return None if of is None else of(agent, messages, tool_context)


def _any_of(asked: Sequence[Callable[[], bool]]) -> Callable[[], bool]:
    return asked[0] if len(asked) == 1 else lambda: any(ask() for ask in asked)


@functools.lru_cache(maxsize=256)
def _accepts(function: Callable[..., Any], name: str) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(item.name == name or item.kind is inspect.Parameter.VAR_KEYWORD for item in parameters)


def _takes_stop_requested(inner: Callable[..., Any]) -> bool:
    function = inner.func if isinstance(inner, functools.partial) else getattr(inner, "__func__", inner)
    return _accepts(function, "stop_requested")
