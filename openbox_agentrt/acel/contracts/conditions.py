"""
Predicates over a session's state, a call's arguments and a tool's result.

A precondition is ``lambda state: ...`` or ``lambda state, args: ...``; a postcondition is
``lambda state, result: ...``. One that raises is an engine fault, not an answer: it counts as
"does not hold", and the fault is told apart from a plain no.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ..._values import dataclass, field
from ..callbacks import discard, fault_text, is_async, is_awaitable
from ..wording import shown

Precondition = Callable[..., Any]
Postcondition = Callable[..., Any]
_F = TypeVar("_F", bound=Callable[..., Any])

NEEDS_ASYNC = "an async predicate was asked on the synchronous path"
_PRE_ATTR = "_acel_preconditions"
_POST_ATTR = "_acel_postconditions"
_MAX_LAYERS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckAnswer:
    """The answer of a predicate. `fault` is set if it could not be evaluated; `holds` is then False."""

    holds: bool
    fault: str | None = None


YES = CheckAnswer(holds=True)
NO = CheckAnswer(holds=False)


@dataclass(frozen=True, slots=True)
class Check:
    """
    A predicate and a line that describes it.

    Attributes:
        fn: The predicate.
        description: What it says.
        derived: Whether the description was read out of the source. It is then not for outsiders: source
            may hold anything.
        takes_args: Whether it looks at more than the state.
        is_async: Whether its answer has to be awaited.
    """

    fn: Callable[..., Any]
    description: str
    derived: bool = field(default=False, kw_only=True, repr=False, compare=False)
    _arity: int = field(init=False, repr=False, compare=False)
    takes_args: bool = field(init=False, repr=False, compare=False)
    is_async: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not callable(self.fn):
            raise TypeError(f"a condition must be callable, got {shown(self.fn)}")
        object.__setattr__(self, "_arity", _arity(self.fn))
        object.__setattr__(self, "takes_args", self._arity > 1)
        object.__setattr__(self, "is_async", is_async(self.fn))

    def evaluate(self, *args: Any) -> bool:
        """Ask the predicate with as many of `args` as it takes. One that raises does not hold."""
        return self.ask(*args).holds

    def ask(self, *args: Any) -> CheckAnswer:
        """Ask the predicate, and keep its fault if it has one."""
        if self.is_async:
            return CheckAnswer(holds=False, fault=NEEDS_ASYNC)
        try:
            answer = self.fn(*args[: self._arity])
            if answer is True:
                return YES
            if is_awaitable(answer):
                discard(answer)
                return CheckAnswer(holds=False, fault=NEEDS_ASYNC)
            return YES if answer else NO
        except Exception as error:  # noqa: BLE001 - fail-closed: what cannot be evaluated does not hold
            return CheckAnswer(holds=False, fault=fault_text("the predicate", error))

    async def aask(self, *args: Any) -> CheckAnswer:
        """As `ask`, and waits for an answer that has to be awaited."""
        try:
            answer = self.fn(*args[: self._arity])
            if is_awaitable(answer):
                answer = await answer
            return YES if answer else NO
        except Exception as error:  # noqa: BLE001 - fail-closed: what cannot be evaluated does not hold
            return CheckAnswer(holds=False, fault=fault_text("the predicate", error))


def as_checks(value: Any) -> list[Check]:
    """
    Nothing, a predicate, a `Check` or a list of either, as a list of checks.

    Raises:
        TypeError: One of them is not callable.
    """
    if value is None:
        return []
    items: Iterable[Any] = value if isinstance(value, (list, tuple)) else [value]
    return [item if isinstance(item, Check) else Check(item, describe(item), derived=True) for item in items]


def describe(fn: Callable[..., Any]) -> str:
    """The predicate's source in one line of at most 160 characters; its name where there is no source."""
    import inspect

    try:
        source = inspect.getsource(fn)
    except (OSError, TypeError):
        name = getattr(fn, "__name__", None)
        return name if isinstance(name, str) else type(fn).__qualname__
    from textwrap import dedent

    source = dedent(source).strip().replace("\n", " ")
    for marker in ("lambda", "def "):
        start = source.find(marker)
        if start != -1:
            source = source[start:]
            break
    return source[:160]


def precondition(pred: Precondition, *, description: str | None = None) -> Callable[[_F], _F]:
    """Let the decorated function run only if ``pred(state)`` or ``pred(state, args)`` holds."""
    return _attach(_PRE_ATTR, _check(pred, description))


def postcondition(pred: Postcondition, *, description: str | None = None) -> Callable[[_F], _F]:
    """Let the decorated function's result be used only if ``pred(state, result)`` holds."""
    return _attach(_POST_ATTR, _check(pred, description))


def collect_checks(func: Callable[..., Any]) -> tuple[list[Check], list[Check]]:
    """The preconditions and postconditions that decorators put on `func`."""
    before: list[Check] = []
    after: list[Check] = []
    for layer in _layers(func):
        before += [check for check in getattr(layer, _PRE_ATTR, ()) if check not in before]
        after += [check for check in getattr(layer, _POST_ATTR, ()) if check not in after]
    return before, after


def _layers(func: Any) -> Iterable[Any]:
    """Walk through what a call of `func` goes through: partials, wrappers that say so, a ``__call__``."""
    import inspect

    for _ in range(_MAX_LAYERS):
        yield func
        inner = getattr(func, "func", None) if isinstance(func, functools.partial) else None
        inner = inner or getattr(func, "__wrapped__", None)
        if inner is None and not inspect.isroutine(func) and not inspect.isclass(func):
            inner = getattr(type(func), "__call__", None)  # noqa: B004 - not to test for it
        if not callable(inner) or inner is func:
            return
        func = inner


def _check(pred: Callable[..., Any], description: str | None) -> Check:
    return Check(pred, description or describe(pred), derived=not description)


def _attach(attribute: str, check: Check) -> Callable[[_F], _F]:
    def decorate(func: _F) -> _F:
        setattr(func, attribute, [*getattr(func, attribute, []), check])
        return func

    return decorate


def _arity(fn: Callable[..., Any]) -> int:
    """Count the positional arguments to hand to `fn`; 1 if it cannot be inspected."""
    import inspect

    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return 1
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return 2
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
