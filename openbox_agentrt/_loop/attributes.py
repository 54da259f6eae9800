"""The attributes of a governed loop: each is governed when it is set."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from agent_rt import AgentLoop, Toolbase, ToolRegistry

from .executor import wrap_tool_executor
from .idempotency import wrap_idempotency_store
from .provider import wrap_provider
from .registry import wrap_tool_registry
from .stand_in import is_governed, unwrap

if TYPE_CHECKING:
    from .._run.runs import Runs


def govern_attribute(loop: Any, name: str, value: Any) -> Any:
    """
    Govern `value`, so that the governed `loop` may have it under `name`.

    Raises:
        TypeError: `value` is a method of another loop that is not governed, and would act on that one.
    """
    if value is None:
        return None
    if name in PARTS:
        other = _TWINS.get(name)
        twin = None if other is None else getattr(loop, other, None)
        if twin is not None and is_governed(twin) and unwrap(twin) is unwrap(value):
            # Agent-RT's command line passes one object as registry and executor, and some code compares them.
            return twin
        for judge in loop.__judges__:
            value = WRAP[name](value, judge)
        return value
    owner = value.__self__ if inspect.ismethod(value) else None
    if isinstance(owner, AgentLoop) and not governing_judges(owner):
        raise TypeError(f"{name!r} cannot be set to a method of a loop that is not governed")
    return value


def governing_judges(loop: object) -> tuple[Runs, ...]:
    """List the judges of a governed loop, innermost first; none for an ordinary one."""
    # On the type: an instance attribute could be forwarded, copied or set by anybody.
    judges: tuple[Runs, ...] = getattr(type(loop), "__judges__", ())
    return judges


def _wrap_executor(executor: Any, judge: Runs, *, lent: bool = False) -> Any:
    if isinstance(executor, ToolRegistry | Toolbase):
        return wrap_tool_registry(executor, judge, lent=lent)
    return wrap_tool_executor(executor, judge, lent=lent)


WRAP: Mapping[str, Callable[..., Any]] = {
    "provider": wrap_provider,
    "tool_registry": wrap_tool_registry,
    "tool_executor": _wrap_executor,
    "idempotency_store": wrap_idempotency_store,
}
"""How each part of a loop is governed."""

_TWINS = {"tool_registry": "tool_executor", "tool_executor": "tool_registry"}

PARTS = tuple(WRAP)
"""Attributes through which a loop acts, in the order in which they are governed."""
