"""
Results whose work begins only after the call has returned: generators, context managers, futures.

Each is handed out as one of its kind that tells the call when the work has ended, and how. One that is
dropped before it began has not happened.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import Future
from typing import Any, Protocol


class Ending(Protocol):
    """Report the end of a call, once, whoever is first. What `done` gives is handed out."""

    @property
    def began(self) -> bool: ...

    def begin(self) -> None:
        """Raise if the work must not begin any more, in which case the call has ended."""

    def done(self, result: Any) -> Any: ...

    async def adone(self, result: Any) -> Any: ...

    def failed(self, error: BaseException) -> None: ...

    def dropped(self) -> None:
        """Take note that nobody has the work any more."""


def has_yet_to_run(result: object) -> bool:
    """Tell whether the work of a call that returned this is still to be done, or is being done."""
    return isinstance(result, _KINDS)


def when_it_has_run(result: Any, ending: Ending) -> Any:
    """
    Give the same work with its end reported.

    Args:
        result: What `has_yet_to_run` holds for.
        ending: Told once how the work ended.
    """
    make = next(make for kind, make in _STAND_INS.items() if isinstance(result, kind))
    return make(result, ending)


class _Generator(Generator[Any, Any, Any]):
    def __init__(self, inner: Generator[Any, Any, Any], ending: Ending) -> None:
        self._inner = inner
        self._ending = ending

    def send(self, value: Any) -> Any:
        self._ending.begin()
        return self._step(self._inner.send, value)

    def throw(self, *error: Any) -> Any:
        if not self._ending.began:
            self._ending.dropped()
        return self._step(self._inner.throw, *error)

    def __del__(self) -> None:
        self._ending.dropped()

    def _step(self, step: Callable[..., Any], *args: Any) -> Any:
        try:
            return step(*args)
        except StopIteration as stop:
            raise StopIteration(self._ending.done(stop.value)) from None
        except BaseException as error:
            self._ending.failed(error)
            raise


class _AsyncGenerator(AsyncGenerator[Any, Any]):
    def __init__(self, inner: AsyncGenerator[Any, Any], ending: Ending) -> None:
        self._inner = inner
        self._ending = ending

    async def asend(self, value: Any) -> Any:
        self._ending.begin()
        return await self._step(self._inner.asend, value)

    async def athrow(self, *error: Any) -> Any:
        if not self._ending.began:
            self._ending.dropped()
        return await self._step(self._inner.athrow, *error)

    def __del__(self) -> None:
        self._ending.dropped()

    async def _step(self, step: Callable[..., Any], *args: Any) -> Any:
        try:
            return await step(*args)
        except StopAsyncIteration:
            await self._ending.adone(None)
            raise
        except BaseException as error:
            self._ending.failed(error)
            raise


class _Context(contextlib.AbstractContextManager[Any]):
    def __init__(self, inner: Any, ending: Ending) -> None:
        self._inner = inner
        self._ending = ending
        self._entered: Any = None

    def __enter__(self) -> Any:
        self._ending.begin()
        try:
            self._entered = self._inner.__enter__()
        except BaseException as error:
            self._ending.failed(error)
            raise
        return self._entered

    def __exit__(self, kind: Any, error: BaseException | None, where: types.TracebackType | None) -> Any:
        try:
            swallowed = self._inner.__exit__(kind, error, where)
        except BaseException as raised:
            self._ending.failed(raised)
            raise
        if error is not None and not swallowed:
            self._ending.failed(error)
        else:
            self._ending.done(self._entered)
        return swallowed

    def __del__(self) -> None:
        self._ending.dropped()


class _AsyncContext(contextlib.AbstractAsyncContextManager[Any]):
    def __init__(self, inner: Any, ending: Ending) -> None:
        self._inner = inner
        self._ending = ending
        self._entered: Any = None

    async def __aenter__(self) -> Any:
        self._ending.begin()
        try:
            self._entered = await self._inner.__aenter__()
        except BaseException as error:
            self._ending.failed(error)
            raise
        return self._entered

    async def __aexit__(
        self, kind: Any, error: BaseException | None, where: types.TracebackType | None
    ) -> Any:
        try:
            swallowed = await self._inner.__aexit__(kind, error, where)
        except BaseException as raised:
            self._ending.failed(raised)
            raise
        if error is not None and not swallowed:
            self._ending.failed(error)
        else:
            await self._ending.adone(self._entered)
        return swallowed

    def __del__(self) -> None:
        self._ending.dropped()


class _Future(Future[Any]):
    """Wait for another future, whose result passes the end of the call first."""

    def __init__(self, inner: Future[Any], ending: Ending) -> None:
        super().__init__()
        self._inner = inner
        self._ending = ending
        self.set_running_or_notify_cancel()
        inner.add_done_callback(self._pass_on)

    def cancel(self) -> bool:
        """Cancel the work, if it has not begun."""
        return self._inner.cancel()

    def running(self) -> bool:
        return self._inner.running()

    def cancelled(self) -> bool:
        return self._inner.cancelled()

    def _pass_on(self, inner: Future[Any]) -> None:
        try:
            result = inner.result()
        except BaseException as error:  # noqa: BLE001 - given to whoever asks for the result
            if inner.cancelled():
                self._ending.dropped()
            self._ending.failed(error)
            self.set_exception(error)
            return
        try:
            self.set_result(self._ending.done(result))
        except BaseException as error:  # noqa: BLE001 - a result that is withheld, told in the same way
            self.set_exception(error)


@contextlib.contextmanager
def _a_context() -> Generator[None]:
    yield


@contextlib.asynccontextmanager
async def _an_async_context() -> AsyncGenerator[None]:
    yield


# Other context managers have done their work when they are returned: an open file, a connection.
_STAND_INS: dict[type[Any], Callable[[Any, Ending], Any]] = {
    types.GeneratorType: _Generator,
    types.AsyncGeneratorType: _AsyncGenerator,
    type(_a_context()): _Context,
    type(_an_async_context()): _AsyncContext,
    Future: _Future,
}
_KINDS = tuple(_STAND_INS)
