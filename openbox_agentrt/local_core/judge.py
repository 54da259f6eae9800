"""Ask a policy and the guardrails about events: one at a time, apart from whoever waits, and not for ever."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

from .failures import place_of
from .guardrails import Guardrails
from .policy import PolicyDecision, fault, understand
from .policy_thread import OverdueError, PolicyThread, StuckError, ThreadClosedError
from .records import RunHistory, decoded
from .rego.policy import START_SECONDS, RegoPolicy
from .rego.source import PolicyError
from .wire import Event

PolicyCallable = Callable[[dict[str, Any]], object]
Policy = str | os.PathLike[str] | PolicyCallable | None
History = Callable[[], RunHistory]

logger = logging.getLogger(__name__)


class Judgement(NamedTuple):
    """A decision about an event, and the ``guardrails_result`` where there is one."""

    decision: PolicyDecision
    guardrails: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyCounts:
    """
    The numbers of what became of a policy's events.

    Attributes:
        asked: Events that it was asked about.
        overdue: Events that were blocked because it took too long, or was still busy with earlier ones.
        deaths: Events that were blocked because the process that evaluates Rego ended over them.
        reloads: Changes of the Rego file that are in force.
    """

    asked: int = 0
    overdue: int = 0
    deaths: int = 0
    reloads: int = 0


class _Askable(Protocol):
    """A policy of one kind."""

    @property
    def name(self) -> str: ...

    def ask(self, event: Event, history: History, seconds: float) -> PolicyDecision: ...


class _CallablePolicy:
    """A policy that is a Python callable."""

    def __init__(self, policy: PolicyCallable) -> None:
        self._policy = policy
        self.name = f"local/{str(getattr(policy, '__name__', type(policy).__name__)).strip('<>')}"

    def ask(self, event: Event, history: History, seconds: float) -> PolicyDecision:
        # A copy of its own: it may keep the event, and may still change it when its time is up.
        return understand(self._policy(decoded(event.body)))


class _AllowAll:
    """The absence of a policy."""

    name = "local/allow-all"

    def ask(self, event: Event, history: History, seconds: float) -> PolicyDecision:
        return PolicyDecision(verdict="allow")


class PolicyJudge:
    """
    Judge events by a policy and guardrails.

    What cannot be followed is a BLOCK: a policy that fails, takes too long, or dies.

    Args:
        policy: A Rego file, a Python callable, or ``None`` to allow everything.
        guardrails: Looks for what has to be replaced; ``None`` for nothing.
        seconds: How long policy and guardrails may take for one event.

    Raises:
        PolicyError: The file is missing, is not Rego, or has no rule ``result``.
        MissingExtraError: Rego needs the extra ``local``.
    """

    def __init__(self, policy: Policy, guardrails: Guardrails | None, *, seconds: float) -> None:
        self._guardrails = guardrails
        self._seconds = seconds
        self._asked = self._overdue = 0
        self._thread = PolicyThread("local-core-policy", on_overdue=self._stop_overdue)
        self._rego: RegoPolicy | None = None
        self._policy: _Askable = _AllowAll()
        if callable(policy):
            self._policy = _CallablePolicy(policy)
        elif isinstance(policy, str | os.PathLike):
            self._policy = self._rego = self._loaded(policy)
        elif policy is not None:
            raise TypeError(f"a policy is a path, a callable or None, not {type(policy).__name__}")
        self.at_once = policy is None and guardrails is None
        """Whether there is nothing to ask, so that nobody has to wait."""

    @property
    def name(self) -> str:
        return self._policy.name

    @property
    def counts(self) -> PolicyCounts:
        rego = self._rego
        return PolicyCounts(
            asked=self._asked,
            overdue=self._overdue,
            deaths=0 if rego is None else rego.deaths,
            reloads=0 if rego is None else rego.reloads,
        )

    def judge(self, event: Event, history: History, then: Callable[[Judgement | None], None]) -> None:
        """
        Judge one event, apart from whoever waits.

        Args:
            then: Called once, in any thread, with the judgement; with ``None`` when the judge was closed
                meanwhile. It must not raise.
        """

        def done(judgement: Judgement | None, error: BaseException | None) -> None:
            then(judgement if error is None else self._without_judgement(event, error))

        self._asked += 1
        self._thread.submit(partial(self._judge, event, history), self._seconds, done)

    def _without_judgement(self, event: Event, error: BaseException) -> Judgement | None:
        if isinstance(error, ThreadClosedError):
            return None
        if isinstance(error, OverdueError):
            problem = f"the policy took longer than {self._seconds:g} s"
        elif isinstance(error, StuckError):
            problem = "the policy is still busy with earlier events"
        else:
            problem = f"the policy failed ({type(error).__name__})"
        self._overdue += isinstance(error, OverdueError | StuckError)
        # Fail-closed: whatever kept the policy from answering, it did not allow the event.
        logger.warning("policy %s on %s: %s", self.name, event.event_type, problem)
        return Judgement(fault(problem))

    def close(self) -> None:
        """End threads and processes. May be called twice."""
        self._thread.close()
        if self._rego is not None:
            self._rego.close()

    def start_anew(self) -> None:
        """Start with threads and a process of its own, in a forked process."""
        self._thread.start_anew()
        if self._rego is not None:
            self._rego.start_anew()

    def _judge(self, event: Event, history: History) -> Judgement:
        try:
            decision = self._policy.ask(event, history, self._seconds)
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything
            # Fail-closed: whatever a policy raises, the event was not allowed by it.
            logger.warning("policy %s failed on %s: %s", self.name, event.event_type, place_of(error))
            return Judgement(fault(f"the policy failed ({type(error).__name__})"))
        if decision.fault:
            logger.warning("policy %s on %s: %s", self.name, event.event_type, decision.reason)
        return Judgement(decision, self._guarded(event))

    def _guarded(self, event: Event) -> Mapping[str, Any] | None:
        if self._guardrails is None or event.hook:
            return None
        try:
            found = self._guardrails(decoded(event.body))
            if found is not None:
                json.dumps(found, allow_nan=False)
            return found or None
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything
            # Fail-closed: data that could not be looked at must not pass as if nothing were in it.
            logger.error("the guardrails failed on %s: %s", event.event_type, place_of(error))
            reason = {"type": "guardrails", "field": "", "reason": "the guardrails failed"}
            return {"validation_passed": False, "reasons": [reason]}

    def _loaded(self, path: str | os.PathLike[str]) -> RegoPolicy:
        rego = RegoPolicy(path, allow_seconds=self._thread.extend)
        self._rego = rego
        try:
            self._done(rego.load, START_SECONDS)
        except OverdueError:
            self.close()
            raise PolicyError(
                path=os.fspath(path), line=None, problem="takes too long to be compiled"
            ) from None
        except BaseException:
            self.close()
            raise
        return rego

    def _done(self, work: Callable[[], None], seconds: float) -> None:
        """Do `work` on the thread, and wait for it."""
        done: Future[None] = Future()

        def then(result: None, error: BaseException | None) -> None:
            done.set_result(None) if error is None else done.set_exception(error)

        self._thread.submit(work, seconds, then)
        done.result()

    def _stop_overdue(self) -> None:
        if self._rego is not None:
            self._rego.overdue()
