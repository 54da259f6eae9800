"""A tool registry, or a Toolbase over one, that asks before each call."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from agent_rt import (
    EXECUTION_TIMEOUT_ENV,
    RegisteredTool,
    Toolbase,
    ToolCall,
    ToolDefinition,
    ToolRegistry,
    ToolTimeoutError,
)

from .._run.current import current_run
from .denial import timed_out
from .stand_in import StandIn, is_judged_by, stand_in
from .tool_call import call_tool, run_skipped
from .tool_run import ToolRun, Work
from .view import knows_when_a_tool_runs, read, view_of

if TYPE_CHECKING:
    from .._run.redaction.redactions import Redactions
    from .._run.runs import Runs
    from .._run.state import RunState

FOREVER = 10.0**9
"""Seconds. Shown to the loop in the place of a tool's own timeout, which begins only when the tool does."""


class GovernedRegistry(StandIn[ToolRegistry | Toolbase]):
    """Have each call judged before the wrapped registry runs the tool."""

    __slots__ = ()

    version = read("version")  # which the loop looks at with each turn

    def get(self, name: str) -> RegisteredTool:
        """
        Give the tool as the loop may see it.

        The loop starts a tool's timeout around `execute`, and would count the time that Core and people
        take. So it is not shown the timeout; `execute` keeps it, from when the tool starts.
        """
        registered = self.__wrapped__.get(name)
        if self.__lent__ and not self.__judge__.is_around():
            return registered
        seconds = timeout_of(registered.definition, current_run())
        if seconds is None or seconds <= 0 or name in self.__judge__.options.skip_tools:
            return registered
        shown = FOREVER if EXECUTION_TIMEOUT_ENV in os.environ else None
        return replace(registered, definition=replace(registered.definition, timeout_seconds=shown))

    async def execute(self, call: ToolCall, *args: Any, **kwargs: Any) -> Any:
        inner, judge = self.__wrapped__, self.__judge__
        if self.__lent__ and not judge.is_around():
            return await inner.execute(call, *args, **kwargs)
        if call.name in judge.options.skip_tools:
            return await run_skipped(call, inner.execute(call, *args, **kwargs))
        definition = handler = None
        try:
            registered = inner.get(call.name)
        except KeyError:
            pass  # the inner registry has its own answer to that, if nobody objects before
        else:
            definition = registered.definition
            handler = registered.handler or registered.contextual_handler

        def invoke(ready: ToolCall, tool_run: ToolRun) -> Awaitable[Any]:
            clean_args, clean_kwargs = _without_redacted(tool_run, args, kwargs)
            seconds = None if definition is None else timeout_of(definition, tool_run.activity.run)
            execute: Work = view_of(inner, judge, tool_run).execute
            if seconds is None:
                return execute(ready, *clean_args, **clean_kwargs)
            return _within(tool_run, seconds, partial(execute, ready, *clean_args, **clean_kwargs))

        return await call_tool(
            judge,
            call,
            invoke,
            definition=definition,
            side_effect=None if definition is None else definition.side_effect,
            prepares=knows_when_a_tool_runs(inner),
            handler=handler,
        )


class GovernedToolbase(GovernedRegistry):
    """Have each call judged, whichever way its tool is reached through a Toolbase."""

    __slots__ = ()

    __wrapped__: Toolbase

    @property
    def registry(self) -> ToolRegistry | Toolbase:
        return wrap_tool_registry(self.__wrapped__.registry, self.__judge__, lent=self.__lent__)


def wrap_tool_registry(
    registry: ToolRegistry | Toolbase, judge: Runs, *, lent: bool = False
) -> ToolRegistry | Toolbase:
    """
    Give a governed stand-in for a ToolRegistry or Toolbase; `registry` itself if `judge` governs it already.

    Raises:
        TypeError: `registry` has no ``execute`` or no ``get``.
    """
    if is_judged_by(registry, judge):
        return registry
    for name in ("execute", "get"):
        if not callable(getattr(registry, name, None)):
            raise TypeError(f"a tool registry has {name}(), {type(registry).__name__} has not")
    base = GovernedToolbase if isinstance(registry, Toolbase) else GovernedRegistry
    # A stand-in claims the type of what it wraps, which no checker sees.
    return cast("ToolRegistry | Toolbase", stand_in(base, registry, judge, lent=lent))


def timeout_of(definition: ToolDefinition, run: RunState | None) -> float | None:
    """Look up how long a tool may take in `run`: its own limit, or that of all tools."""
    seconds: float | None = definition.timeout_seconds
    if seconds is None and run is not None:
        seconds = run.tool_timeout
    return seconds


async def _within(tool_run: ToolRun, seconds: float, work: Callable[[], Awaitable[Any]]) -> Any:
    """Do `work` in the tool's own time, and say in the loop's place that it took longer."""
    try:
        return await tool_run.within(seconds, work)
    except ToolTimeoutError:
        if EXECUTION_TIMEOUT_ENV not in os.environ:
            raise
        # The loop has a timeout of its own then, and would replace ours by its number.
        return timed_out(tool_run.name, seconds)


def _without_redacted(
    tool_run: ToolRun, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Redact the other arguments of ``execute``: the request context quotes the prompt."""
    redactions = tool_run.activity.run.redactions
    if redactions.is_empty:
        return args, kwargs
    if len(args) > 1:
        return (args[0], _clean_context(redactions, args[1]), *args[2:]), kwargs
    if "request_context" in kwargs:
        return args, {**kwargs, "request_context": _clean_context(redactions, kwargs["request_context"])}
    return args, kwargs


def _clean_context(redactions: Redactions, context: Any) -> Any:
    prompt = context.get("user_prompt") if isinstance(context, Mapping) else None
    if not isinstance(prompt, str) or redactions.text(prompt) is prompt:
        return context
    return {**context, "user_prompt": redactions.text(prompt)}
