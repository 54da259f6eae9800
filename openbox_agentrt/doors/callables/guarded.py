"""Contracts around a function, a method or any other callable."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from openbox_agentrt.doors.arguments import Parameters, is_coroutine_function
from openbox_agentrt.doors.call import GovernedCall
from openbox_agentrt.doors.judged_work import Governance
from openbox_agentrt.doors.outcome import PlainAnswers

if TYPE_CHECKING:
    from openbox_agentrt.acel import Session
    from openbox_agentrt.acel.outcome import OutcomeHook

P = ParamSpec("P")
R = TypeVar("R")


@overload
def guard(
    session: Session | None,
    tool: str,
    func: classmethod[Any, ..., R],
    *,
    governance: Governance | None = None,
    outcome: OutcomeHook | None = None,
) -> classmethod[Any, ..., R]: ...
@overload
def guard(
    session: Session | None,
    tool: str,
    func: staticmethod[P, R],
    *,
    governance: Governance | None = None,
    outcome: OutcomeHook | None = None,
) -> staticmethod[P, R]: ...
@overload
def guard(
    session: Session | None,
    tool: str,
    func: Callable[P, R],
    *,
    governance: Governance | None = None,
    outcome: OutcomeHook | None = None,
) -> Callable[P, R]: ...
def guard(
    session: Session | None,
    tool: str,
    func: Any,
    *,
    governance: Governance | None = None,
    outcome: OutcomeHook | None = None,
) -> Any:
    """
    Wrap a callable so that every call passes the session's contracts first.

    The wrapper is called like `func`, has its signature, annotations and docstring, and is a coroutine
    function if `func` is one. Contracts see the arguments by name, however they were passed, with defaults
    and with what a partial has bound; extra keyword arguments stand beside the others, extra positional ones
    are a list under the name of ``*args``. They see plain data: models and dataclasses by their fields, enums
    by their values, dates and UUIDs as text. A first parameter named ``self`` or ``cls`` that is passed by
    position is the method's object and no argument.

    A call whose work begins after it has returned - of a generator function, a context manager made of one,
    what gives a future - is judged when it is made and counts when that work has ended. One that is dropped
    before it begins has not happened. If its arguments were changed before it begins, it raises
    `ChangedArgumentsError` and does not begin.

    Args:
        session: Session that judges. None if `governance` has contracts of its own.
        tool: Name that the contracts know the callable by.
        func: A function, a method (bound, class or static), a partial, or an object with ``__call__``.
        governance: Has Core judge each call as well, in the run that the caller is in. Core is waited for, so
            `func` has to be async; where Core redacts arguments, it gets the redacted ones.
        outcome: Says what became of a call that returned: "ok", "failed", "aborted" or "unknown". What is not
            "ok" is returned all the same, stays counted for limits ("aborted" excepted) and allows nothing.
            Without it, a call has failed if its result says so in the way of MCP or LangChain.

    Returns:
        The wrapper. If the session was made with ``halt_on_violation=False``, it returns the `Violation`
        of a call that is refused.

    Raises:
        TypeError: `func` is no callable, or there is a governance and `func` is not async.
        GovernanceError: Raised by the wrapper: Core or a person decided against the call.
        ContractViolation: Raised by the wrapper: a contract refused the call and nothing ran, or the
            result broke a postcondition.
    """
    if isinstance(func, classmethod):
        return classmethod(guard(session, tool, func.__func__, governance=governance, outcome=outcome))
    if isinstance(func, staticmethod):
        return staticmethod(guard(session, tool, func.__func__, governance=governance, outcome=outcome))
    if not callable(func):
        raise TypeError(f"cannot guard {tool!r}: {func!r} is not callable")
    is_async = is_coroutine_function(func)
    if governance is not None and not is_async:
        raise TypeError(f"cannot guard {tool!r}: Core is waited for, so the function has to be async")
    if session is None and governance is None:
        raise TypeError(f"cannot guard {tool!r}: a session or a governance is needed")

    parameters = Parameters(tool, func, session)
    reading = PlainAnswers(outcome)

    def governed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[GovernedCall, Callable[..., Any]]:
        bound = parameters.call(args, kwargs)
        call = GovernedCall(
            session=session,
            tool=tool,
            args=bound.judged,
            governance=governance,
            reading=reading,
            check=bound.check,
        )
        return call, bound.run_after_waiting if is_async else bound.run

    wrapper: Callable[..., Any]
    if is_async:

        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            call, work = governed(args, kwargs)
            return await call.arun(work)

    else:

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            call, work = governed(args, kwargs)
            return call.run(work)

    # The attributes of an object that can be called are its state, and not for a function to carry.
    functools.update_wrapper(wrapper, func, updated=("__dict__",) if inspect.isroutine(func) else ())
    wrapper.__name__ = getattr(func, "__name__", tool)
    return wrapper
