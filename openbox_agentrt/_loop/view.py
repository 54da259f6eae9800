"""
A registry for the length of one call, whose handler checks what it is given.

`ToolRegistry.execute` runs hooks, blockers and guardrails of the user before the handler, and they may
rewrite the arguments. Running that very method on a stand-in for the registry, in which this one tool has
another handler, lets the last look be taken after all of them, without touching the user's registry and for
subclasses as well.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from agent_rt import RegisteredTool, Toolbase, ToolDefinition, ToolRegistry

from .stand_in import StandIn, stand_in_class

if TYPE_CHECKING:
    from .._run.runs import Runs
    from .tool_run import ToolRun

UNLIMITED = 10.0**9


def read(name: str) -> property:
    """Make a member that reads the registry's attribute, quicker than `StandIn.__getattr__` finds it."""
    return property(attrgetter(f"__wrapped__.{name}"))


class RegistryView(StandIn[ToolRegistry | Toolbase]):
    """Run one call, and look at its arguments once more before the handler gets them."""

    __slots__ = ("__tool_run__",)

    __tool_run__: ToolRun
    __lent__ = False  # there is a run around

    # What `ToolRegistry.execute` reads for each call.
    action_blockers = read("action_blockers")
    approval_manager = read("approval_manager")
    hooks = read("hooks")
    permission_engine = read("permission_engine")
    rate_limiter = read("rate_limiter")
    tool_input_guardrails = read("tool_input_guardrails")
    tool_output_guardrails = read("tool_output_guardrails")

    def get(self, name: str) -> RegisteredTool:
        registered = self.__wrapped__.get(name)
        return self._checked(registered) if name == self.__tool_run__.name else registered

    def execute(self, *args: Any, **kwargs: Any) -> Any:
        inner = self.__wrapped__
        if isinstance(inner, StandIn) or _is_patched(inner):
            # Another governance judges it as well, or its method is somebody's own.
            return inner.execute(*args, **kwargs)
        run: Any = type(inner).execute  # on this view, which answers for the registry
        return run(self, *args, **kwargs)

    def _checked(self, registered: RegisteredTool) -> RegisteredTool:
        tool_run = self.__tool_run__
        handler, contextual = registered.handler, registered.contextual_handler
        unlimited = registered.definition
        if unlimited.timeout_seconds is not None:
            unlimited = self._without_timeout(unlimited)
        if contextual is not None:

            async def contextual_handler(arguments: Any, context: Any) -> Any:
                if unlimited is not registered.definition:
                    limits = replace(context.limits, timeout_seconds=registered.definition.timeout_seconds)
                    context = replace(context, limits=limits)
                return await tool_run.run(contextual, arguments, context)

            return _with(registered, definition=unlimited, contextual_handler=contextual_handler)
        if handler is not None:
            return _with(registered, definition=unlimited, handler=partial(tool_run.run, handler))
        return registered

    def _without_timeout(self, definition: ToolDefinition) -> ToolDefinition:
        """
        Copy `definition` without the timeout that the registry would set around the handler.

        Only where arguments can be rewritten: then the handler may have to ask again, in time that is not
        the tool's. Our own timeout, which is as long, stands around all of it.
        """
        if not _may_rewrite(self.__wrapped__):
            return definition
        return replace(definition, timeout_seconds=UNLIMITED)


class ToolbaseView(RegistryView):
    """Run one call of a Toolbase, whose registry does the work."""

    __slots__ = ()

    __wrapped__: Toolbase

    def get(self, name: str) -> RegisteredTool:
        return self.__wrapped__.get(name)

    @property
    def registry(self) -> RegistryView:
        return view_of(self.__wrapped__.registry, self.__judge__, self.__tool_run__)


def view_of(registry: ToolRegistry | Toolbase, judge: Runs, tool_run: ToolRun) -> RegistryView:
    """Make a view of `registry` for the one call that `tool_run` is about."""
    kind: Any = type(registry)
    view = object.__new__(_view_class(kind, isinstance(registry, Toolbase)))
    # Without its initializer: each call makes one.
    put = object.__setattr__
    put(view, "__wrapped__", registry)
    put(view, "__judge__", judge)
    put(view, "__tool_run__", tool_run)
    return view


@lru_cache(maxsize=256)
def _view_class(kind: type[Any], is_toolbase: bool) -> type[RegistryView]:
    return stand_in_class(ToolbaseView if is_toolbase else RegistryView, kind)


def knows_when_a_tool_runs(registry: ToolRegistry | Toolbase) -> bool:
    """Tell whether `registry` runs tools in no other way than through the handlers that `get` returns."""
    if _is_patched(registry):
        return False
    if isinstance(registry, Toolbase):
        return type(registry).execute is Toolbase.execute and knows_when_a_tool_runs(registry.registry)
    return type(registry).execute is ToolRegistry.execute


def _with(registered: RegisteredTool, **fields: Any) -> RegisteredTool:
    if type(registered) is not RegisteredTool:
        return replace(registered, **fields)
    # As `copy.copy` makes one. `dataclasses.replace` asks for each field, and each call makes one.
    made = object.__new__(type(registered))
    made.__dict__.update(registered.__dict__, **fields)
    return made


def _is_patched(registry: object) -> bool:
    """Tell whether `execute` is not the class's method: replaced on the instance, or forwarded elsewhere."""
    return "execute" in getattr(registry, "__dict__", ()) or not hasattr(type(registry), "execute")


def _may_rewrite(registry: ToolRegistry | Toolbase) -> bool:
    return (
        _is_patched(registry)
        or not isinstance(registry, ToolRegistry)
        or type(registry).execute is not ToolRegistry.execute
        or registry.hooks.pre_call is not None
        or bool(registry.tool_input_guardrails)
    )
