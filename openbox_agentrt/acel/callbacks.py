"""Call code that is not ours: matchers, predicates, commit functions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any


def fault_text(what: str, error: BaseException) -> str:
    """Say in one line that code raised: the error's type, and not its text, which may hold an argument."""
    return f"{what} raised {type(error).__name__}"


def is_async(fn: Callable[..., Any]) -> bool:
    """Tell whether calling `fn` gives something to await."""
    # Loaded here: it reads source code, and a hook, which is a process for each call, asks for none of it.
    import inspect

    if inspect.iscoroutinefunction(inspect.unwrap(fn)):
        return True
    # A partial keeps its function in `func`; any other object is called through its type.
    inner = getattr(fn, "func", None) or getattr(type(fn), "__call__", None)  # noqa: B004 - not to test for it
    return inspect.iscoroutinefunction(inner)


def is_awaitable(value: Any) -> bool:
    """Tell whether a value is to be awaited."""
    if value is True or value is False or value is None:
        return False
    import inspect

    return inspect.isawaitable(value)


def discard(awaitable: Awaitable[Any]) -> None:
    """Close a coroutine that nobody will await, so that Python does not warn about it later."""
    close = getattr(awaitable, "close", None)
    if callable(close):
        close()
