"""Other ways to a model than `complete` and `stream`: embeddings, and batches of requests."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from agent_rt import CancellationToken, EmbeddingRequest, ModelRequest

from .._activity.outputs import WITHHELD_OUTPUT, seen
from .._activity.screening import check_elements, judge_elements, perform_as_judged, refuse_changing
from .._plain.arguments import plain_value
from .._plain.unseen import Unseen, unseen_in
from .._run.record import refused
from .._run.redaction.mutable_parts import serialized
from .._wire.model_input import Element, message_elements
from ..decision import Verdict
from ..errors import GovernanceBlockedError, GovernanceUnavailableError
from ..lifecycle_events import LLM_ACTIVITY
from .stand_in import StandIn

if TYPE_CHECKING:
    from .._run.runs import Runs
    from .._run.state import RunState


T = TypeVar("T")

TOKENS = ("input_tokens", "total_tokens")


async def embed(self: StandIn[Any], request: EmbeddingRequest, *args: Any, **kwargs: Any) -> Any:
    """Have an embedding judged as a model call: its texts reach a model too."""
    if self.__lent__ and not self.__judge__.is_around():
        return await self.__wrapped__.embed(request, *args, **kwargs)

    async def work(given: Any) -> Any:
        ready = request if given is request.input else replace(request, input=given)
        return await self.__wrapped__.embed(ready, *args, **kwargs)

    return await _judged(self.__judge__, _read(request.input), work, _embedded, model=request.model)


async def create_batch(self: StandIn[Any], *args: Any, **kwargs: Any) -> Any:
    """Have a batch of requests judged as a model call. Its answers come later, and by another way."""
    if self.__lent__ and not self.__judge__.is_around():
        return await self.__wrapped__.create_batch(*args, **kwargs)

    async def work(given: Any) -> Any:
        return await self.__wrapped__.create_batch(*given[0], **given[1])

    given = [tuple(map(_read, args)), {name: _read(item) for name, item in kwargs.items()}]
    return await _judged(self.__judge__, given, work, _submitted)


JUDGED: Mapping[str, Callable[..., Awaitable[Any]]] = {"embed": embed, "create_batch": create_batch}
"""Methods that a governed provider has where its provider has them."""


def is_asynchronous(provider: object, name: str) -> bool:
    """Tell whether a method is a coroutine function. Another one cannot wait for a judge, and escapes."""
    return inspect.iscoroutinefunction(getattr(provider, name))


async def _judged(
    judge: Runs,
    given: Any,
    work: Callable[[Any], Awaitable[T]],
    told: Callable[[T], dict[str, Any]],
    *,
    model: str | None = None,
) -> T:
    run = judge.around(LLM_ACTIVITY)
    elements = _elements(run.redactions.value(given))
    _check_seen(run, elements)
    judged = serialized(_elements(given))
    activity = await judge_elements(run, elements, model=model)
    if serialized(_elements(given)) != judged:
        await refuse_changing(activity)
    ready = run.redactions.value(given)
    await check_elements(activity, _elements(ready))
    result = await perform_as_judged(activity, lambda: work(ready), lambda: serialized(_elements(ready)))
    output = told(result)
    measured: dict[str, Any] = {name: output[name] for name in TOKENS if output.get(name) is not None}
    answer = await activity.complete(output, result=output, measured=measured)
    if seen(activity, output, answer) is not output:
        # Vectors and jobs cannot be edited, and there are no words to put in their place.
        raise GovernanceBlockedError(WITHHELD_OUTPUT, event=LLM_ACTIVITY, ran=True)
    return result


def _read(given: Any) -> Any:
    """Read what can be read only once, which a provider would take as it takes a list."""
    return list(given) if isinstance(given, Iterator) else given


def _elements(given: Any) -> list[Element]:
    """List what of some input reaches a model: the messages of requests, texts, and all else as data."""
    match given:
        case ModelRequest():
            return message_elements(given.messages)
        case str():
            return [{"role": "user", "prompt": given}] if given.strip() else []
        case list() | tuple():
            return [element for item in given for element in _elements(item)]
        case Mapping():
            return [
                element
                for item in given.values()
                for element in (_elements(item) if _is_several(item) else _opened(item))
            ]
    return _opened(given)


def _is_several(item: object) -> bool:
    return isinstance(item, list | tuple) and any(_holds(part) for part in item)


def _opened(item: object) -> list[Element]:
    """Give what an object holds that shows no fields, and anything else as data."""
    if isinstance(item, CancellationToken):
        return []
    return _elements(vars(item)) if _holds(item) else [{"role": "user", "json": item}]


def _holds(item: object) -> bool:
    """Tell whether an item is a request, or an object of somebody's own that may hold some."""
    if isinstance(item, ModelRequest):
        return True
    return isinstance(plain_value(item), Unseen) and bool(getattr(item, "__dict__", None))


def _check_seen(run: RunState, elements: list[Element]) -> None:
    """
    Refuse what Core cannot be shown.

    Raises:
        GovernanceUnavailableError: There is an object in it that nobody can look into.
    """
    unseen = next(unseen_in(plain_value(elements)), None)
    if unseen is not None:
        reason = f"core cannot be shown what the call holds: {unseen}"
        error = GovernanceUnavailableError(
            reason, kind="unreadable", event=LLM_ACTIVITY, remedy="pass plain data, or requests"
        )
        raise refused(run, error, LLM_ACTIVITY, Verdict.BLOCK, "unreachable", {"reason": reason})


def _embedded(response: Any) -> dict[str, Any]:
    usage = getattr(response, "usage", None)
    return {
        "llm_model": getattr(response, "model", None),
        "items": len(getattr(response, "data", ())),
        **{name: getattr(usage, name, None) for name in TOKENS},
    }


def _submitted(job: Any) -> dict[str, Any]:
    return {"batch": getattr(job, "id", None), "status": getattr(job, "status", None)}
