"""The arguments of a call by name, and what kind of callable would run it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

__all__ = ("ArgsReader", "args_reader", "is_coroutine_function", "is_generator_function")

ArgsReader = Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any]]


def is_coroutine_function(func: Any) -> bool:
    """Whether a call of `func`, through partials and `__call__`, gives a coroutine."""
    return _is(inspect.iscoroutinefunction, func)


def is_generator_function(func: Any) -> bool:
    """Whether a call of `func`, through partials and `__call__`, gives a generator of either kind."""
    return _is(inspect.isgeneratorfunction, func) or _is(inspect.isasyncgenfunction, func)


def args_reader(tool: str, func: Callable[..., Any]) -> ArgsReader:
    """
    What names the arguments of a call to `func`, as contracts know them.

    The reader raises TypeError for a call that `func` does not take, or in which two arguments would have one
    name.
    """
    try:
        signature = inspect.signature(func)
    except (TypeError, ValueError):
        # A callable written in C may not say what its parameters are.
        return functools.partial(_keywords_only, tool)
    return functools.partial(_named_args, tool, signature)


def _keywords_only(tool: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    if args:
        raise TypeError(f"{tool!r} has no signature to name its arguments by: pass them by keyword")
    return dict(kwargs)


def _named_args(
    tool: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    named: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for position, (name, value) in enumerate(bound.arguments.items()):
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            extra = value
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            if value:
                named[name] = list(value)
        elif position > 0 or not args or name not in ("self", "cls"):
            named[name] = value
    clash = named.keys() & extra.keys()
    if clash:
        # Contracts would see one of the two, and the function both.
        raise TypeError(f"{tool!r} got two arguments that contracts know as {min(clash)!r}")
    return named | extra


def _is(check: Callable[[Any], bool], func: Any) -> bool:
    while isinstance(func, functools.partial):
        func = func.func
    if check(func):
        return True
    # An object that can be called is what its `__call__` is; a class is called to make an object.
    return not inspect.isroutine(func) and not inspect.isclass(func) and check(type(func).__call__)
