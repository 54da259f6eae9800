"""The arguments of a call by name, and what kind of callable would run it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ("ArgumentNames", "is_coroutine_function")


def is_coroutine_function(func: Any) -> bool:
    """Whether a call of `func`, through partials and `__call__`, gives a coroutine."""
    return _is(inspect.iscoroutinefunction, func)


class ArgumentNames:
    """
    The arguments of a callable by the names that contracts know them by.

    Args:
        tool: Name of the callable, for errors.
        func: The callable.
    """

    def __init__(self, tool: str, func: Callable[..., Any]) -> None:
        self._tool = tool
        self._signature: inspect.Signature | None
        try:
            self._signature = inspect.signature(func)
        except (TypeError, ValueError):
            # A callable written in C may not say what its parameters are.
            self._signature = None

    def read(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """
        The arguments of a call by name, with defaults.

        Raises:
            TypeError: The callable does not take them, or two of them would have one name.
        """
        if self._signature is None:
            if args:
                raise TypeError(
                    f"{self._tool!r} has no signature to name its arguments by: pass them by keyword"
                )
            return dict(kwargs)
        named: dict[str, Any] = {}
        extra: Mapping[str, Any] = {}
        for name, value, kind in self._bind(args, kwargs):
            if kind is inspect.Parameter.VAR_KEYWORD:
                extra = value
            elif kind is inspect.Parameter.VAR_POSITIONAL:
                if value:
                    named[name] = list(value)
            else:
                named[name] = value
        clash = named.keys() & extra.keys()
        if clash:
            # Contracts would see one of the two, and the function both.
            raise TypeError(f"{self._tool!r} got two arguments that contracts know as {min(clash)!r}")
        return {**named, **extra}

    def write(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], named: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """
        The same call with other values.

        Raises:
            KeyError: A value is missing. The old one is not used instead.
        """
        if self._signature is None:
            return args, {name: named[name] for name in kwargs}
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        for name, value, kind in self._bind(args, kwargs):
            if kind is inspect.Parameter.VAR_KEYWORD:
                bound.arguments[name] = {key: named[key] for key in value}
            elif kind is inspect.Parameter.VAR_POSITIONAL:
                bound.arguments[name] = tuple(named[name]) if value else ()
            else:
                bound.arguments[name] = named[name]
        return bound.args, bound.kwargs

    def _bind(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Iterator[tuple[str, Any, inspect._ParameterKind]]:
        assert self._signature is not None
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        for position, (name, value) in enumerate(bound.arguments.items()):
            if position > 0 or not args or name not in ("self", "cls"):
                yield name, value, self._signature.parameters[name].kind


def _is(check: Callable[[Any], bool], func: Any) -> bool:
    while isinstance(func, functools.partial):
        func = func.func
    if check(func):
        return True
    # An object that can be called is what its `__call__` is; a class is called to make an object.
    return not inspect.isroutine(func) and not inspect.isclass(func) and check(type(func).__call__)
