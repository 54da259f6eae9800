"""Contracts around a function, a method or any other callable."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from openbox_agentrt.doors.arguments import args_reader, is_coroutine_function, is_generator_function
from openbox_agentrt.doors.gated_call import GatedCall

if TYPE_CHECKING:
    from openbox_agentrt.acel import Session

__all__ = ("guard",)

P = ParamSpec("P")
R = TypeVar("R")


@overload
def guard(session: Session, tool: str, func: classmethod[Any, ..., R]) -> classmethod[Any, ..., R]: ...
@overload
def guard(session: Session, tool: str, func: staticmethod[P, R]) -> staticmethod[P, R]: ...
@overload
def guard(session: Session, tool: str, func: Callable[P, R]) -> Callable[P, R]: ...
def guard(session: Session, tool: str, func: Any) -> Any:
    """
    Wrap a callable so that every call passes the session's contracts first.

    The wrapper is called like `func`, has its signature, annotations and docstring, and is a coroutine
    function if `func` is one. Contracts see the arguments by name, however they were passed, with defaults
    filled in; extra keyword arguments stand beside the others, extra positional ones are a list under the
    name of ``*args``. A first parameter named ``self`` or ``cls`` that is passed by position is the
    method's object and no argument.

    Args:
        session: Session that judges.
        tool: Name that the contracts know the callable by.
        func: A function, a method (bound, class or static), a partial, or an object with ``__call__``.

    Returns:
        The wrapper. If the session was made with ``halt_on_violation=False``, it returns the `Violation`
        of a call that is refused.

    Raises:
        TypeError: `func` is no callable, or a generator function: its body runs after the call has
            returned, when no contract could stop it.
        ContractViolation: Raised by the wrapper: a contract refused the call and nothing ran, or the
            result broke a postcondition.
    """
    if isinstance(func, classmethod):
        return classmethod(guard(session, tool, func.__func__))
    if isinstance(func, staticmethod):
        return staticmethod(guard(session, tool, func.__func__))
    if not callable(func):
        raise TypeError(f"cannot guard {tool!r}: {func!r} is not callable")
    if is_generator_function(func):
        raise TypeError(f"cannot guard {tool!r}: a generator runs after its call has returned")

    read_args = args_reader(tool, func)

    def gated(args: tuple[Any, ...], kwargs: dict[str, Any]) -> GatedCall:
        return GatedCall(session=session, tool=tool, args=read_args(args, kwargs))

    wrapper: Callable[..., Any]
    if is_coroutine_function(func):

        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            return await gated(args, kwargs).arun(functools.partial(func, *args, **kwargs))

    else:

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return gated(args, kwargs).run(functools.partial(func, *args, **kwargs))

    # The attributes of an object that can be called are its state, and not for a function to carry.
    functools.update_wrapper(wrapper, func, updated=("__dict__",) if inspect.isroutine(func) else ())
    wrapper.__name__ = getattr(func, "__name__", tool)
    return wrapper
