"""
One attempt to ask Core, and what came of it.

openbox_core says the same for a refused connection, a 422 and half an answer: an ALLOW marked as fallback
under ``fail_open``, a `GovernanceAPIError` under ``fail_closed``. The transport's record tells them apart.
For a runtime with a transport that is not ours there is no record; then the text of the reason has to do.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

from msgspec import structs
from openbox_core.contracts.results import EvaluationResult
from openbox_core.errors import (
    ContractError,
    GovernanceAPIError,
    OpenBoxAuthError,
    OpenBoxConfigError,
    OpenBoxNetworkError,
)

from .._plain.strict_json import JsonError
from .._wire.error_info import scrub
from ..decision import Answer
from ..errors import GovernanceUnavailableError
from .parsing import UnknownVerdict, decoded, not_understood, parse_answer, read_answer
from .transport.direct import DirectClient, named
from .transport.exchange import (
    EVALUATE,
    AnswerTooLargeError,
    CutAnswerError,
    Exchange,
    is_outage_status,
    recording,
)

if TYPE_CHECKING:
    from openbox_core.contracts.events import EventEnvelope
    from openbox_core.runtime import OpenBoxRuntime


_STATUS: Final = re.compile(r"\bHTTP (\d{3})\b")
_LONGEST_RETRY_AFTER: Final = 86_400.0

TOO_MANY_REQUESTS: Final = 429


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """
    Core gave no answer.

    Attributes:
        retry_after: Seconds that Core asks to wait.
        said: What counts although it is no answer, when asking again brings none: a no that came with an
            error, or part of an answer that was cut off.
        skipped: Core was not asked.
        asked_at: The time that the event was given.
    """

    reason: str
    status: int | None = None
    retry_after: float = 0.0
    said: Answer | None = None
    skipped: bool = False
    asked_at: str = ""


def stamped(event: EventEnvelope, time: str) -> EventEnvelope:
    """Give `event` the time `time`, unless it has one of its own."""
    return event if event.timestamp else replace(event, timestamp=time)


class Attempts:
    """
    Ask Core, once for each call.

    Args:
        on_unknown: What an answer that is not understood counts as.
        now: The time of day.
    """

    __slots__ = ("_direct", "_now", "_on_unknown", "_privacy", "_runtime")

    def __init__(
        self, runtime: OpenBoxRuntime, *, on_unknown: UnknownVerdict, now: Callable[[], datetime]
    ) -> None:
        client = runtime.client
        self._runtime = runtime
        self._direct = client if isinstance(client, DirectClient) else None
        self._privacy = runtime.config.privacy
        self._on_unknown = on_unknown
        self._now = now

    async def ask(self, event: EventEnvelope, stamp: str, limit: float) -> Answer | Outage:
        """
        Ask about `event` for at most `limit` seconds.

        Args:
            stamp: The time of the event: its own, if it has one.

        Raises:
            GovernanceUnavailableError: Core did not take the question, or it could not be put.
            OpenBoxAuthError: Core answered 401 or 403.
        """
        direct = self._direct
        if direct is None or not direct.asks:
            return await self._through_openbox_core(event, stamp, limit)
        try:
            answered = direct.ask(event, stamp, limit, self._privacy.redact_keys)
        except (ContractError, OpenBoxConfigError, ValueError, RecursionError) as error:
            raise _refused(f"the event could not be put to core: {error}", None) from error
        except Exception as error:
            # A fault of openbox_core's or of ours: nothing of it is an ALLOW.
            raise _unreadable(error) from error
        try:
            status, headers, body = await answered
        except TimeoutError:
            return Outage(reason=f"core could not be reached: no answer within {limit:.3g} s")
        except Exception as error:  # noqa: BLE001
            # Told apart there: nothing of it is an ALLOW.
            return _by_error(error, self._on_unknown)
        if status == 200:
            return read_answer(body or b"", on_unknown=self._on_unknown)
        direct.check_signature(status, headers, body)
        retry_after = named(headers or {}, "retry-after")
        exchange = Exchange(path=EVALUATE, status=status, body=body, retry_after=retry_after)
        return _by_status(exchange, status, None, self._on_unknown, self._now)

    async def _through_openbox_core(self, event: EventEnvelope, stamp: str, limit: float) -> Answer | Outage:
        result: EvaluationResult | None = None
        failure: Exception | None = None
        with recording() as exchange:
            try:
                async with asyncio.timeout(limit):
                    result = await self._runtime.gate.aevaluate(stamped(event, stamp))
            except OpenBoxAuthError:
                raise
            except TimeoutError:
                return Outage(reason=f"no answer within {limit:.3g} s")
            except Exception as error:  # noqa: BLE001
                # Told apart below, by what was on the wire. Nothing of it is an ALLOW by itself.
                failure = error
        if isinstance(failure, ContractError | ValueError):
            raise _refused(f"the event could not be put to core: {failure}", None) from failure
        if exchange.status is not None:
            return _by_status(exchange, exchange.status, failure, self._on_unknown, self._now)
        if exchange.error is not None:
            return _by_error(exchange.error, self._on_unknown)
        return _by_words(result, failure, self._on_unknown)


def _by_status(
    exchange: Exchange,
    status: int,
    failure: Exception | None,
    on_unknown: UnknownVerdict,
    now: Callable[[], datetime],
) -> Answer | Outage:
    if status != 200:
        outage = _other_status(exchange, status, failure, now)
        if outage is not None:
            return outage
    if not exchange.is_about(EVALUATE):
        # The answer to a question before the question, such as the bootstrap of an identity. Whatever it
        # says, it says nothing about the event.
        raise _refused("core's answer about the identity cannot be used", None) from failure
    return read_answer(exchange.body or b"", on_unknown=on_unknown)


def _other_status(
    exchange: Exchange, status: int, failure: Exception | None, now: Callable[[], datetime]
) -> Outage | None:
    """Tell an outage from a refusal, which is raised; None for what may hold an answer."""
    if status in (401, 403):
        raise OpenBoxAuthError(f"core rejected the request (HTTP {status}); check the api key") from failure
    if is_outage_status(status):
        return Outage(
            reason=f"core answered HTTP {status}",
            status=status,
            retry_after=_retry_after(exchange.retry_after, now()),
            said=_no_in(exchange),
        )
    if not 200 <= status < 300:
        raise _refused(f"core did not take the event: HTTP {status}", status) from failure
    return None


def _no_in(exchange: Exchange) -> Answer | None:
    """The no that stands in an error, which does not make a yes of it."""
    if not exchange.body or not exchange.is_about(EVALUATE):
        return None
    try:
        answer = parse_answer(decoded(exchange.body))
    except JsonError:
        return None
    if answer.local or not answer.verdict.should_stop():
        return None
    return structs.replace(answer, local=True)


def _by_error(error: Exception, on_unknown: UnknownVerdict) -> Answer | Outage:
    import httpx

    if isinstance(error, AnswerTooLargeError):
        return not_understood("it is too large", on_unknown)
    if isinstance(error, httpx.LocalProtocolError | httpx.UnsupportedProtocol):
        raise _refused(f"the request could not be made: {scrub(str(error))}", None) from error
    if isinstance(error, httpx.TransportError | OSError):
        text = scrub(str(error)) or type(error).__name__
        cut_off = isinstance(error, CutAnswerError)
        return Outage(
            reason=f"core could not be reached: {text}",
            said=not_understood("it was cut off", on_unknown) if cut_off else None,
        )
    raise _unreadable(error) from error


def _by_words(
    result: EvaluationResult | None, failure: Exception | None, on_unknown: UnknownVerdict
) -> Answer | Outage:
    if result is not None and not _is_fallback(result):
        return parse_answer(result.raw, on_unknown=on_unknown)
    if result is not None or isinstance(failure, GovernanceAPIError | OpenBoxNetworkError):
        reason = str(failure) if result is None else str(result.reason)
        found = _STATUS.search(reason)
        status = None if found is None else int(found[1])
        if status is None or is_outage_status(status):
            return Outage(reason=scrub(reason), status=status)
        raise _refused(f"core did not take the event: HTTP {status}", status) from failure
    if isinstance(failure, OpenBoxConfigError):
        raise _refused(str(failure), None) from failure
    if isinstance(failure, AttributeError | TypeError | RecursionError):
        # What openbox_core's parser does with a list, null or a verdict that is no text.
        return not_understood("it is not of the form of one", on_unknown)
    assert failure is not None
    raise _unreadable(failure) from failure


def _is_fallback(result: EvaluationResult) -> bool:
    # Core can write `fallback_used` into an answer, but it cannot leave the answer empty.
    return result.fallback_used and not result.raw


def _refused(reason: str, status: int | None) -> GovernanceUnavailableError:
    return GovernanceUnavailableError(reason, kind="refused", status=status)


def _unreadable(error: Exception) -> GovernanceUnavailableError:
    return GovernanceUnavailableError(f"asking core failed with {type(error).__name__}", kind="unreadable")


def _retry_after(value: str | None, now: datetime) -> float:
    if value is None:
        return 0.0
    text = value.strip()
    if re.fullmatch(r"\d{1,9}(\.\d+)?", text):
        return min(float(text), _LONGEST_RETRY_AFTER)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return min(max(0.0, (moment - now).total_seconds()), _LONGEST_RETRY_AFTER)
