"""
What contracts see of the arguments of a LangChain tool.

It is what the model wrote, after validation and as plain data. What the framework adds - the call's id, the
agent's state, stores, configuration, callbacks - is left out: it is not the model's, and some of it is as
large as the whole conversation.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Collection, Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolArg
from langchain_core.tools import base as tools_base

from openbox_agentrt._plain.arguments import plain_arguments
from openbox_agentrt.doors.arguments import UnfitArgumentsError, in_form_of

# Added by `BaseTool.run` and by tools made from functions, whatever the annotation.
_ADDED_BY_NAME = frozenset({"run_manager", "callbacks"})
# The base of `langgraph.prebuilt.ToolRuntime`, which needs no `Annotated`.
_INJECTED_BY_TYPE: tuple[type, ...] = tuple(
    kind for kind in [getattr(tools_base, "_DirectlyInjectedToolArg", None)] if isinstance(kind, type)
)


class ToolArguments:
    """Read the arguments of a tool's `_run`, or of the function that it is made of, as contracts see them."""

    def __init__(self, tool: BaseTool) -> None:
        self._tool = tool.name
        self._names = tuple(tool.args)
        self._hidden = _ADDED_BY_NAME | _injected_names(tool)
        self._defaults = _defaults(tool, set(self._names) - self._hidden)

    def shown(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Leave out what the framework adds."""
        return {name: value for name, value in kwargs.items() if name not in self._hidden}

    def read(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Give what contracts see."""
        given = self.shown(kwargs)
        given |= {self._name(position): value for position, value in enumerate(args)}
        return plain_arguments({**self._defaults, **given})

    def write(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], seen: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """
        Give the same arguments with other values for what contracts see.

        Raises:
            UnfitArgumentsError: The other values are not of the types of the old ones.
        """
        try:
            return self._written(args, kwargs, seen)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise UnfitArgumentsError(self._tool) from error

    def _written(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], seen: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        new_args = tuple(in_form_of(value, seen[self._name(position)]) for position, value in enumerate(args))
        return new_args, {
            name: value if name in self._hidden else in_form_of(value, seen[name])
            for name, value in kwargs.items()
        }

    def _name(self, position: int) -> str:
        # A tool with a single text as its input gets that by position.
        return self._names[position] if position < len(self._names) else f"arg{position}"


def _defaults(tool: BaseTool, names: Collection[str]) -> dict[str, Any]:
    # Not every version passes the defaults of the schema on; what the model leaves out is then Python's.
    function = getattr(tool, "func", None) or getattr(tool, "coroutine", None) or tool._run
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}
    return {
        name: parameters[name].default
        for name in names
        if name in parameters and parameters[name].default is not inspect.Parameter.empty
    }


def _injected_names(tool: BaseTool) -> frozenset[str]:
    sources: list[Any] = [tool._run, tool._arun]
    sources += [getattr(tool, field, None) for field in ("func", "coroutine")]
    if isinstance(tool.args_schema, type):
        sources.append(tool.args_schema)
    return frozenset(
        name
        for source in sources
        if source is not None
        for name, hint in _type_hints(source).items()
        if _is_injected(hint)
    )


def _type_hints(source: Any) -> dict[str, Any]:
    while hasattr(source, "func") and not isinstance(source, type):
        source = source.func
    try:
        return typing.get_type_hints(source, include_extras=True)
    except Exception:  # noqa: BLE001 - an annotation may name anything; what is not known to be hidden is shown
        return {}


def _is_injected(hint: Any) -> bool:
    if hint is RunnableConfig:
        return True
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_is_injected(option) for option in typing.get_args(hint))
    kind = origin if origin is not None else hint
    if isinstance(kind, type) and issubclass(kind, _INJECTED_BY_TYPE):
        return True
    return any(
        isinstance(mark, InjectedToolArg) or (isinstance(mark, type) and issubclass(mark, InjectedToolArg))
        for mark in getattr(hint, "__metadata__", ())
    )
