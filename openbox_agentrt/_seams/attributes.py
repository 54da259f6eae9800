"""What an attribute of a governed loop becomes when it is set."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from agent_rt import AgentLoop, Toolbase, ToolRegistry

from .executor import wrap_tool_executor
from .idempotency import wrap_idempotency_store
from .provider import wrap_provider
from .proxy import judge_of, unwrap
from .registry import wrap_tool_registry

if TYPE_CHECKING:
    from .._run.judge import Judge


def govern_attribute(loop: Any, name: str, value: Any) -> Any:
    """
    `value` as the governed `loop` may have it under `name`.

    Raises:
        TypeError: `value` is a method of another loop that is not governed, and would act on that one.
    """
    judge: Judge = loop.__judge__
    if value is None or judge_of(value) is judge:
        return value
    match name:
        case "provider":
            return wrap_provider(value, judge)
        case "tool_registry":
            return wrap_tool_registry(value, judge)
        case "tool_executor":
            return _executor(loop, value, judge)
        case "idempotency_store":
            return wrap_idempotency_store(value, judge)
    owner = value.__self__ if inspect.ismethod(value) else None
    if isinstance(owner, AgentLoop) and getattr(type(owner), "__judge__", None) is None:
        raise TypeError(f"{name!r} cannot be set to a method of a loop that is not governed")
    return value


def _executor(loop: Any, value: Any, judge: Judge) -> Any:
    registry = getattr(loop, "tool_registry", None)
    if registry is not None and unwrap(registry) is unwrap(value):
        # Agent-RT's command line passes one object as both, and some code compares them.
        return registry
    if isinstance(value, ToolRegistry | Toolbase):
        return wrap_tool_registry(value, judge)
    return wrap_tool_executor(value, judge)
