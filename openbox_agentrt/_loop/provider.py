"""A model provider that asks before each call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .model_call import begin_model_call, end_model_call
from .stand_in import Proxy, is_judged_by, stand_in
from .stream import GovernedStream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from .._activity.judge import Judge

OPTIONAL_MEMBERS = ("count_tokens", "embed", "create_batch", "list_models")
"""Members that Agent-RT's protocols and shims look for at class level. They are not governed."""


class GovernedProvider(Proxy):
    """A provider that can complete."""

    __slots__ = ()

    @property
    def name(self) -> str:
        name: str = self.__wrapped__.name
        return name

    async def complete(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        activity, request = await begin_model_call(self.__judge__, request)
        response = await activity.perform(lambda: self.__wrapped__.complete(request, *args, **kwargs))
        response, _ = await end_model_call(activity, response)
        return response


class GovernedStreamingProvider(GovernedProvider):
    """A provider that can complete and stream."""

    __slots__ = ()

    def stream(self, request: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        # Nothing happens until the first step, as with an async generator.
        return GovernedStream(
            self.__judge__, request, lambda ready: self.__wrapped__.stream(ready, *args, **kwargs)
        )


def wrap_provider(provider: Any, judge: Judge) -> Any:
    """
    A governed stand-in for `provider`; `provider` itself if `judge` governs it already.

    Raises:
        TypeError: `provider` has no ``complete``.
    """
    if is_judged_by(provider, judge):
        return provider
    if not callable(getattr(provider, "complete", None)):
        raise TypeError(f"a model provider has a complete() method, {type(provider).__name__} has not")
    # Two classes over one that misleads `isinstance`: AgentLoop streams whatever has `stream`.
    base = GovernedStreamingProvider if callable(getattr(provider, "stream", None)) else GovernedProvider
    members = [name for name in OPTIONAL_MEMBERS if hasattr(provider, name)]
    return stand_in(base, provider, judge, members=members)
