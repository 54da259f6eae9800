"""A tool executor that asks before each call."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent_rt import ToolCall, ToolExecutor

from .stand_in import StandIn, is_judged_by, stand_in
from .tool_call import call_tool, run_skipped
from .tool_run import ToolRun

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .._run.runs import Runs


class GovernedExecutor(StandIn[ToolExecutor]):
    """Have each call judged before the wrapped executor runs it."""

    __slots__ = ()

    async def execute(self, call: ToolCall, *args: Any, **kwargs: Any) -> Any:
        # The loop passes one argument or two, and executors exist that take only one.
        inner, judge = self.__wrapped__, self.__judge__
        if self.__lent__ and not judge.is_around():
            return await inner.execute(call, *args, **kwargs)
        if call.name in judge.options.skip_tools:
            return await run_skipped(call, inner.execute(call, *args, **kwargs))

        async def invoke(ready: ToolCall, tool_run: ToolRun) -> Any:
            return await tool_run.run(
                lambda checked: inner.execute(_with_arguments(ready, checked), *args, **kwargs),
                ready.arguments,
            )

        side_effect = judge.around(call.name).side_effect_of(call.name)
        return await call_tool(judge, call, invoke, side_effect=side_effect, prepares=True)


def wrap_tool_executor(executor: ToolExecutor, judge: Runs, *, lent: bool = False) -> ToolExecutor:
    """
    Give a governed stand-in for `executor`; `executor` itself if `judge` governs it already.

    Raises:
        TypeError: `executor` has no ``execute``.
    """
    if is_judged_by(executor, judge):
        return executor
    if not callable(getattr(executor, "execute", None)):
        raise TypeError(f"a tool executor has an execute() method, {type(executor).__name__} has not")
    return stand_in(GovernedExecutor, executor, judge, lent=lent)


def _with_arguments(call: ToolCall, arguments: Mapping[str, Any]) -> ToolCall:
    return call if arguments is call.arguments else replace(call, arguments=arguments)
