"""
A model stream that is judged before its first step, and closed exactly once.

It is a class and not an async generator, because Agent-RT may take every step in a different task: a
generator would set its ContextVars in the first and reset them in the last, and the activity would be bound
for the consumer between two steps as well. Here it is bound inside each step and nowhere else.

Nobody is bound to read a stream to its end. Whoever stops - by ``break``, an error, a cancelled task, or by
forgetting it - leaves a row at Core and an open response behind. The run keeps its streams and closes them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from agent_rt import ModelRequest, ModelStreamEvent

from .._activity.binding import Binding
from .._activity.endings import ABANDONED
from .._run.contract_events import hears_text
from .._wire.error_info import error_info
from .held_stream import OpenStream, held_events
from .model_call import begin_model_call, end_model_call

if TYPE_CHECKING:
    from .._activity.activity import Activity
    from .._run.runs import Runs

CLOSED_EARLY = error_info(type=ABANDONED, message="model stream closed before completion")
NO_RESPONSE = error_info(type="IncompleteStream", message="model stream ended without a completed response")


class GovernedStream:
    """
    Hand on the events of one model call.

    With ``outputs="enforce"``, nothing is handed on before the whole response is there and Core has been
    told of it; what it answers then still counts. The same is so where a contract is about what the model
    says. Else, what was handed on cannot be taken back.

    Args:
        request: The request as it came; what is sent is its redacted copy.
        open_stream: Opens the provider's own stream.
    """

    def __init__(self, judge: Runs, request: ModelRequest, open_stream: OpenStream) -> None:
        self._judge = judge
        self._request = request
        self._open = open_stream
        self._activity: Activity | None = None
        self._inner: AsyncIterator[ModelStreamEvent] | None = None
        self._held: AsyncIterator[ModelStreamEvent] | None = None
        self._stepping = False
        self._finished = False
        self._to_close = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ModelStreamEvent:
        if self._finished:
            raise StopAsyncIteration
        if self._stepping:
            raise RuntimeError("a model stream cannot take two steps at once")
        self._stepping = True
        try:
            event = await self._step()
        except BaseException:
            # The end, a refusal, an error or a cancellation: there is no next event after any of them.
            self._finished = True
            raise
        finally:
            self._stepping = False
            if self._to_close:
                await self._close_inner()
        return event

    async def aclose(self) -> None:
        """Stop reading the stream. The row is closed; after a step under way, the provider's stream too."""
        self.abandon(None)
        if self._stepping:
            self._to_close = True
        else:
            await self._close_inner()

    def abandon(self, error: BaseException | None) -> None:
        """Note that nobody will read on. Does not wait: the provider's stream is left to `aclose`."""
        self._finished = True
        if self._activity is not None:
            run = self._activity.run
            self._activity.leave(CLOSED_EARLY if error is None else run.redactions.value(error_info(error)))

    async def _step(self) -> ModelStreamEvent:
        activity = self._activity
        if activity is None:
            activity = await self._begin()
        if self._held is not None:
            return await anext(self._held)
        try:
            with Binding(activity):
                if self._inner is None:
                    self._inner = aiter(self._open(self._request))
                event = await anext(self._inner)
        except StopAsyncIteration:
            activity.run.open_streams.discard(self)
            activity.leave(NO_RESPONSE)  # unless it was completed
            raise
        except BaseException as error:
            # Cancelled by a deadline, or failed. The provider's stream is closed at the end of the run: a
            # cancelled task must not wait for it.
            await activity.fail(error)
            raise
        activity.gave = True
        if event.type == "completed" and event.response is not None and activity.state != "closed":
            response = await end_model_call(activity, event.response)
            if response is not event.response:
                event = replace(event, response=response, raw=None)
        return event

    async def _begin(self) -> Activity:
        activity, self._request = await begin_model_call(self._judge, self._request)
        self._activity = activity
        activity.run.open_streams.add(self)
        if self._judge.options.enforces_outputs or activity.guards or hears_text(activity.run):
            self._held = held_events(activity, self._request, self._open)
        else:
            activity.begin()
        return activity

    async def _close_inner(self) -> None:
        self._to_close = False
        inner, self._inner = self._inner, None
        if self._activity is not None:
            self._activity.run.open_streams.discard(self)
        for stream in (inner, self._held):
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
