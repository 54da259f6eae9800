"""
The arguments of a call: what contracts see of them, and what runs.

Contracts see plain data, each value under the name of its parameter, with defaults. What runs is what was
passed, as long as it still is what was judged, or the judged data in the form of what was passed where Core
has changed it.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from openbox_agentrt._plain.arguments import plain_arguments, plain_value
from openbox_agentrt._plain.same import is_same
from openbox_agentrt.doors.unfit import fault_of, report_unfit
from openbox_agentrt.doors.validated import validated

from .._picklable import PicklableError

if TYPE_CHECKING:
    from openbox_agentrt.acel import Session

_FLAT = frozenset({str, int, float, bool, type(None), bytes})


class ChangedArgumentsError(PicklableError, RuntimeError):
    """
    The arguments of a call are not what was judged any more. It did not run.

    Attributes:
        tool: Name of the tool.
    """

    def __init__(self, tool: str) -> None:
        self.tool = tool
        super().__init__(f"the arguments of {tool!r} were changed while they were judged")


class UnfitArgumentsError(PicklableError, ValueError):
    """
    The arguments that Core redacted do not fit the tool. It did not run.

    Attributes:
        tool: Name of the tool.
    """

    def __init__(self, tool: str) -> None:
        self.tool = tool
        super().__init__(f"the redacted arguments of {tool!r} do not fit it")


def is_coroutine_function(func: Any) -> bool:
    """Tell whether a call of `func`, through partials and `__call__`, gives a coroutine."""
    while isinstance(func, functools.partial):
        func = func.func
    if inspect.iscoroutinefunction(func):
        return True
    # An object that can be called is what its `__call__` is; a class is called to make an object.
    callable_object = not inspect.isroutine(func) and not inspect.isclass(func)
    return callable_object and inspect.iscoroutinefunction(type(func).__call__)


class Parameters:
    """
    Read the calls of a callable by the names that contracts know its arguments by.

    Args:
        tool: Name of the callable, for errors.
        func: The callable. What a partial has bound already is an argument like any other. Behind
            `validate_call`, the arguments are those that come of the validation.
        session: Keeps the calls whose arguments it does not take, see `report_unfit`.

    Raises:
        TypeError: It is behind a `validate_call` that cannot be looked into.
    """

    def __init__(self, tool: str, func: Callable[..., Any], session: Session | None) -> None:
        self._tool = tool
        self._session = session
        self._bound_args: tuple[Any, ...] = ()
        self._bound_kwargs: dict[str, Any] = {}
        while type(func) is functools.partial and not _has_placeholder(func):
            self._bound_args = func.args + self._bound_args
            self._bound_kwargs = {**func.keywords, **self._bound_kwargs}
            func = func.func
        self._validated = validated(tool, func)
        if self._validated is not None:
            func = self._validated.run
        self._func = func
        self._signature: inspect.Signature | None
        try:
            self._signature = inspect.signature(func)
        except (TypeError, ValueError):
            # A callable written in C may not say what its parameters are.
            self._signature = None

    def call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> BoundCall:
        """
        Read a call of the callable.

        Raises:
            TypeError: The callable does not take the arguments, or contracts would know two of them by one
                name.
            pydantic.ValidationError: The callable is behind `validate_call`, which does not take them.
        """
        args = self._bound_args + args
        kwargs = {**self._bound_kwargs, **kwargs}
        if self._validated is not None:
            try:
                args, kwargs = self._validated.arguments(args, kwargs)
            except Exception as error:
                self._report(args, kwargs, fault_of(error))
                raise
        try:
            return BoundCall(self._tool, self._func, self._signature, args, kwargs)
        except TypeError as error:
            # Python's own words, and ours: they name parameters.
            self._report(args, kwargs, str(error))
            raise

    def _report(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], fault: str) -> None:
        unnamed = {f"arg{position}": value for position, value in enumerate(args)}
        report_unfit(self._session, self._tool, {**unnamed, **kwargs}, fault)


class BoundCall:
    """
    Hold one call of a callable: what was passed, and what contracts see of it.

    Attributes:
        func: The callable, without the partials around it.
        named: The arguments by name, as they were passed.
        judged: The arguments by name, as contracts see them.
    """

    def __init__(
        self,
        tool: str,
        func: Callable[..., Any],
        signature: inspect.Signature | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self._tool = tool
        self.func = func
        self._signature = signature
        self._args = args
        self._kwargs = kwargs
        self.named = self._read()
        self.judged = plain_arguments(self.named)

    def run(self, judged: Mapping[str, Any]) -> Any:
        """Make the call at once after it was judged."""
        return self.func(*self._args, **self._kwargs)

    def run_after_waiting(self, judged: Mapping[str, Any]) -> Any:
        """
        Make the call, with other values where `judged` is not what was judged.

        Raises:
            ChangedArgumentsError: The arguments were changed meanwhile.
            UnfitArgumentsError: The other values are not of the types of the old ones.
        """
        if judged is self.judged:
            self.check()
            return self.func(*self._args, **self._kwargs)
        try:
            args, kwargs = self._with(judged)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise UnfitArgumentsError(self._tool) from error
        return self.func(*args, **kwargs)

    def check(self) -> None:
        """
        Compare what was passed with what was judged.

        Raises:
            ChangedArgumentsError: Somebody has changed it.
        """
        if self._may_change() and not is_same(plain_arguments(self.named), self.judged):
            raise ChangedArgumentsError(self._tool)

    def _may_change(self) -> bool:
        return any(type(value) not in _FLAT for value in self.named.values())

    def _read(self) -> dict[str, Any]:
        if self._signature is None:
            if self._args:
                raise TypeError(
                    f"{self._tool!r} has no signature to name its arguments by: pass them by keyword"
                )
            return dict(self._kwargs)
        named: dict[str, Any] = {}
        extra: Mapping[str, Any] = {}
        for name, value, kind in self._bound():
            if kind is inspect.Parameter.VAR_KEYWORD:
                extra = value
            elif kind is not inspect.Parameter.VAR_POSITIONAL:
                named[name] = value
            elif value:
                named[name] = list(value)
        clash = named.keys() & extra.keys()
        if clash:
            # Contracts would see one of the two, and the function both.
            raise TypeError(f"{self._tool!r} got two arguments that contracts know as {min(clash)!r}")
        return {**named, **extra}

    def _with(self, judged: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if self._signature is None:
            return self._args, {name: in_form_of(old, judged[name]) for name, old in self._kwargs.items()}
        bound = self._signature.bind(*self._args, **self._kwargs)
        bound.apply_defaults()
        for name, value, kind in self._bound():
            if kind is inspect.Parameter.VAR_KEYWORD:
                bound.arguments[name] = {key: in_form_of(old, judged[key]) for key, old in value.items()}
            elif kind is inspect.Parameter.VAR_POSITIONAL:
                bound.arguments[name] = in_form_of(tuple(value), judged[name]) if value else ()
            else:
                bound.arguments[name] = in_form_of(value, judged[name])
        return bound.args, bound.kwargs

    def _bound(self) -> Iterator[tuple[str, Any, inspect._ParameterKind]]:
        assert self._signature is not None
        bound = self._signature.bind(*self._args, **self._kwargs)
        bound.apply_defaults()
        for position, (name, value) in enumerate(bound.arguments.items()):
            if position > 0 or not self._args or name not in ("self", "cls"):
                yield name, value, self._signature.parameters[name].kind


def in_form_of(old: Any, new: Any) -> Any:
    """
    Give plain data in the form of the value that it stands for.

    Raises:
        LookupError, TypeError, ValueError, AttributeError: It cannot have that form.
    """
    if is_same(plain_value(old), new):
        return old
    kind = type(old)
    if isinstance(old, Mapping):
        changed = {key: in_form_of(item, new[_name_of(key)]) for key, item in old.items()}
        return changed if kind is dict else kind(changed)
    if isinstance(old, list | tuple):
        if len(old) != len(new):
            raise ValueError("another number of items")
        items = [in_form_of(item, other) for item, other in zip(old, new, strict=True)]
        return kind(*items) if hasattr(kind, "_fields") else kind(items)
    if type(new) is kind:
        return new
    copy = getattr(kind, "model_copy", None)
    if copy is not None:
        names = [name for name in new if hasattr(old, name)]
        return copy(old, update={name: in_form_of(getattr(old, name), new[name]) for name in names})
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind) if field.init]
        return dataclasses.replace(old, **{name: in_form_of(getattr(old, name), new[name]) for name in names})
    if isinstance(old, set | frozenset | Enum):
        return kind(new)
    return _scalar(kind, new)


def _scalar(kind: type, text: Any) -> Any:
    from datetime import date, time
    from decimal import Decimal
    from pathlib import PurePath
    from uuid import UUID

    if issubclass(kind, date | time):
        return kind.fromisoformat(text)
    if issubclass(kind, UUID | PurePath | Decimal):
        return kind(text)
    if issubclass(kind, bytes):
        return kind(text.encode())
    raise TypeError(f"cannot make a {kind.__name__} of plain data")


def _name_of(key: Any) -> Any:
    return next(iter(plain_arguments({"": {key: None}})[""]))


def _has_placeholder(func: functools.partial[Any]) -> bool:
    placeholder = getattr(functools, "Placeholder", None)
    return placeholder is not None and any(arg is placeholder for arg in func.args)
