"""A model provider that asks before each call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_rt import (
    ModelProvider,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    StreamingModelProvider,
)

from .model_call import begin_model_call, end_model_call, perform_model_call
from .other_calls import JUDGED, is_asynchronous
from .stand_in import StandIn, forwarded, is_judged_by, stand_in
from .stream import GovernedStream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from .._run.runs import Runs

FORWARDED = ("count_tokens", "list_models")
"""Members that Agent-RT's protocols and shims look for at class level, and that ask no model anything."""


class GovernedProvider(StandIn[ModelProvider]):
    """Have each completion judged before the wrapped provider is called."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return self.__wrapped__.name

    async def complete(self, request: ModelRequest, *args: Any, **kwargs: Any) -> ModelResponse:
        if self.__lent__ and not self.__judge__.is_around():
            return await self.__wrapped__.complete(request, *args, **kwargs)
        activity, request = await begin_model_call(self.__judge__, request)
        # Looked up inside: a provider that makes its client only now may fail at it.
        response = await perform_model_call(
            activity, request, lambda: self.__wrapped__.complete(request, *args, **kwargs)
        )
        return await end_model_call(activity, response)


class GovernedStreamingProvider(GovernedProvider):
    """Have each stream judged as well."""

    __slots__ = ()

    __wrapped__: StreamingModelProvider

    def stream(self, request: ModelRequest, *args: Any, **kwargs: Any) -> AsyncIterator[ModelStreamEvent]:
        if self.__lent__ and not self.__judge__.is_around():
            return self.__wrapped__.stream(request, *args, **kwargs)
        # Nothing happens until the first step, as with an async generator.
        return GovernedStream(
            self.__judge__, request, lambda ready: self.__wrapped__.stream(ready, *args, **kwargs)
        )


def wrap_provider(provider: ModelProvider, judge: Runs, *, lent: bool = False) -> ModelProvider:
    """
    Give a governed stand-in for `provider`; `provider` itself if `judge` governs it already.

    Raises:
        TypeError: `provider` has no ``complete``.
    """
    if is_judged_by(provider, judge):
        return provider
    if not callable(getattr(provider, "complete", None)):
        raise TypeError(f"a model provider has a complete() method, {type(provider).__name__} has not")
    # Two classes over one that misleads `isinstance`: AgentLoop streams whatever has `stream`.
    base = GovernedStreamingProvider if callable(getattr(provider, "stream", None)) else GovernedProvider
    members: dict[str, Any] = {name: forwarded(name) for name in FORWARDED if hasattr(provider, name)}
    for name, method in JUDGED.items():
        if hasattr(provider, name):
            members[name] = method if is_asynchronous(provider, name) else forwarded(name)
    return stand_in(base, provider, judge, members=members, lent=lent)
