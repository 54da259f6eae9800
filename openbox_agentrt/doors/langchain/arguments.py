"""
Read the arguments of a LangChain tool as contracts see them.

It is what the model wrote, after validation and as plain data. What the framework adds - the call's id, the
agent's state, stores, configuration, callbacks - is left out: it is not the model's, and some of it is as
large as the whole conversation.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolArg
from langchain_core.tools import base as tools_base

from openbox_agentrt._plain.arguments import plain_arguments
from openbox_agentrt.doors.arguments import UnfitArgumentsError, in_form_of

# Added by `BaseTool.run` and by tools made from functions, whatever the annotation, where they are declared.
_ADDED_BY_NAME = frozenset({"run_manager", "callbacks"})
# The base of `langgraph.prebuilt.ToolRuntime`, which needs no `Annotated`.
_INJECTED_BY_TYPE: tuple[type, ...] = tuple(
    kind for kind in [getattr(tools_base, "_DirectlyInjectedToolArg", None)] if isinstance(kind, type)
)


class ToolArguments:
    """
    Read the arguments of one way into a tool as contracts see them.

    Args:
        tool: The tool.
        functions: What the arguments pass through, such as its `_run`; the last one does the work.
    """

    def __init__(self, tool: BaseTool, *functions: Callable[..., Any]) -> None:
        self._tool = tool.name
        self._names = _listed_names(tool)
        declared = {name for function in functions for name in _parameters(function)}
        self._hidden = (_ADDED_BY_NAME & declared) | _injected_names(tool, functions)
        # Not every version passes the defaults of the schema on; what the model leaves out is then Python's.
        self._defaults = {
            name: parameter.default
            for name, parameter in _parameters(functions[-1]).items()
            if parameter.default is not inspect.Parameter.empty and name not in self._hidden
        }

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


def _listed_names(tool: BaseTool) -> tuple[str, ...]:
    if isinstance(tool.args_schema, dict):
        # A JSON schema without properties is one that LangChain itself does not read.
        return tuple(tool.args_schema.get("properties", ()))
    return tuple(tool.args)


def of_run(tool: BaseTool) -> ToolArguments:
    """Read the arguments of a tool that is not awaited."""
    return ToolArguments(tool, *_given(tool._run, getattr(tool, "func", None)))


def of_arun(tool: BaseTool) -> ToolArguments:
    """Read the arguments of a tool that is awaited."""
    coroutine = getattr(tool, "coroutine", None)
    if coroutine is None and hasattr(tool, "func"):
        # It runs in a thread.
        return ToolArguments(tool, *_given(tool._arun, tool._run, getattr(tool, "func", None)))
    return ToolArguments(tool, *_given(tool._arun, coroutine))


def _given(*functions: Callable[..., Any] | None) -> Iterator[Callable[..., Any]]:
    return (function for function in functions if function is not None)


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        # Written in C, it may not say what its parameters are.
        return {}


def _injected_names(tool: BaseTool, functions: Iterable[Callable[..., Any]]) -> frozenset[str]:
    schema = [tool.args_schema] if isinstance(tool.args_schema, type) else []
    return frozenset(
        name
        for source in (*functions, *schema)
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
