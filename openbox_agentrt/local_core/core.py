"""An OpenBox Core that runs inside the process."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Literal, ParamSpec, Self, TypeVar

from .._halt import Halt, halt_of
from . import ledger
from .approval_desk import ApprovalDesk
from .approvals import Approval, State
from .arrival import arrival
from .evaluation import Evaluator, JudgedElsewhere
from .failures import place_of
from .forks import start_anew_in_forks
from .guardrails import Guardrails, detector
from .identity import Authenticator
from .judge import Policy, PolicyCounts, PolicyJudge
from .listeners import Listeners
from .records import Record, RefusedRequest
from .routes import HttpAnswer, Routes, answered, error_answer
from .store import store_at
from .wire import WireError

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_API_KEY = "obx_test_local_core"
MAX_BODY_BYTES = 10 * 1024 * 1024
_LOOK_AGAIN_SECONDS = 0.02

logger = logging.getLogger(__name__)


class CoreClosedError(RuntimeError):
    """A local Core was used after `close`. Nothing was done."""


class LocalCore:
    """
    An OpenBox Core for development, tests and machines without a network.

    It answers the wire of OpenBox Core (v1, and v2 and v3 alike), keeps runs, approvals and every
    event in memory or in an SQLite file, and judges with a policy of yours. It does not replace Core:
    whoever can reach it and knows its key can use it, and its policy is a file on this machine.

    All methods may be called from any thread.

    Args:
        policy: A Rego file (extra ``local``), a callable that gets the event and returns a decision
            (``None``, ``"BLOCK"``, ``{"decision": "BLOCK", "reason": ...}``), or ``None`` to allow all.
        path: The SQLite file; ``":memory:"`` for none: everything is gone when the process ends.
        api_key: The key that requests have to carry.
        agents: Public keys (raw Ed25519, base64) by agent DID; given, signed requests are verified.
        guardrails: ``True`` replaces personal data in prompts and outputs; ``"everything"`` also in the
            arguments of tools, which then run with made-up values; or a callable that gets the event and
            returns a ``guardrails_result`` or ``None``.
        approval_seconds: How long an approval stays open; ``None`` without end.
        policy_seconds: How long the policy and the guardrails may take for one event. After that it is
            a BLOCK; a callable that does not return keeps its thread.
        max_body_bytes: Larger requests get a 413.
        on_approval: Called with every approval that is asked for, while its request is answered; or an
            ``https`` URL, to which it is posted as JSON with a field ``text``. No request waits for that.
        on_approval_secret: Key of the HMAC-SHA256 with which what is posted is signed.
        redact_fields: Names whose values are marked in what is posted; what looks like a key or a token is
            in any case.
        clock: Seconds since 1970.

    Raises:
        PolicyError: The policy file is missing, is not Rego, or has no rule ``result``.
        StoreError: The file cannot be opened, or belongs to something else.
        MissingExtraError: The policy is Rego and the extra ``local`` is not installed.
        WebhookError: `on_approval` is no URL that can be told.
    """

    def __init__(
        self,
        policy: Policy = None,
        path: str | os.PathLike[str] = ":memory:",
        *,
        api_key: str = DEFAULT_API_KEY,
        agents: Mapping[str, str] | None = None,
        guardrails: bool | Literal["everything"] | Guardrails = False,
        approval_seconds: float | None = 3600.0,
        policy_seconds: float = 5.0,
        max_body_bytes: int = MAX_BODY_BYTES,
        on_approval: Callable[[Approval], object] | str | None = None,
        on_approval_secret: str | None = None,
        redact_fields: Iterable[str] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.api_key = api_key
        self.max_body_bytes = max_body_bytes
        self._clock = clock
        # Reentrant: a policy may look at the core that asks it.
        self._lock = threading.RLock()
        self._closed = False
        self._listeners = Listeners(on_approval, secret=on_approval_secret, redact_fields=redact_fields)
        self._store = contextvars.Context().run(store_at, path)
        try:
            self._judge = PolicyJudge(policy, detector(guardrails), seconds=policy_seconds)
        except BaseException:
            self._store.close()
            raise
        # Whoever forgets to close it leaves no process behind.
        weakref.finalize(self, self._judge.close)
        start_anew_in_forks(self)
        this = weakref.proxy(self)

        def apart(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
            found: T = this._apart(work, *args, **kwargs)
            return found

        self._desk = ApprovalDesk(self._store, clock=clock, seconds=approval_seconds)
        self._evaluator = Evaluator(
            store=self._store,
            judge=self._judge,
            desk=self._desk,
            apart=apart,
            clock=clock,
            on_approval=self._listeners.tell,
        )
        self._routes = Routes(
            authenticator=Authenticator(api_key=api_key, agents=agents, clock=clock),
            evaluator=self._evaluator,
            desk=self._desk,
            store=self._store,
            clock=clock,
            max_body_bytes=max_body_bytes,
        )

    def handle(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        """
        Answer one request of the wire, as an HTTP server would.

        Never raises. It waits for the policy, and must not be called by it.
        """
        try:
            said = self._apart(self._routes.answer, method, path, headers, body)
            while isinstance(said, JudgedElsewhere):
                time.sleep(_LOOK_AGAIN_SECONDS)
                said = self._apart(self._evaluator.answer, said.event, said.caller)
            if isinstance(said, Future):
                said = said.result()
            return answered(said)
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything
            return _failed(error)

    async def ahandle(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        """
        Answer one request like `handle`, while other tasks run.

        Cancelled, it stops waiting; the event is judged and written down all the same.
        """
        try:
            said = self._apart(self._routes.answer, method, path, headers, body)
            while isinstance(said, JudgedElsewhere):
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)
                said = self._apart(self._evaluator.answer, said.event, said.caller)
            if isinstance(said, Future):
                said = await arrival(said)
            return answered(said)
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything
            return _failed(error)

    def events(self, workflow_id: str | None = None) -> list[dict[str, Any]]:
        """List every event that was accepted, in order of arrival, repetitions included."""
        return [record.event for record in self.records(workflow_id)]

    def records(self, workflow_id: str | None = None) -> list[Record]:
        """List every event that was accepted, with its answer."""
        return self._apart(self._store.records, workflow_id)

    def refused(self) -> list[RefusedRequest]:
        """List every request that was answered with an error, in order of arrival."""
        return self._apart(self._store.refused)

    def orphans(self) -> list[ledger.Orphan]:
        """List the activities whose starts and completions do not match one to one."""
        return ledger.orphans(self._apart(self._store.moves))

    def open_workflows(self) -> list[ledger.OpenWorkflow]:
        """List the runs without a terminal event, or with two."""
        return ledger.open_workflows(self._apart(self._store.moves))

    def pending_approvals(self) -> list[Approval]:
        """List the approvals that wait for a person, oldest first."""
        return self._apart(self._desk.pending)

    def approvals(self) -> list[Approval]:
        """List every approval that was ever asked for, oldest first."""
        return self._apart(self._store.approvals)

    def approve(self, approval: Approval | str, note: str = "", *, by: str = "") -> Approval:
        """
        Let the work of an approval happen.

        Args:
            approval: The approval, its id, or the id of the activity that waits.
            note: What the agent is told.
            by: Who decides; it is told with the decision, and nobody checks it.

        Raises:
            UndecidableApprovalError: There is none, there are several, or it is decided or expired already.
        """
        return self._decide(approval, "approved", note, by)

    def reject(self, approval: Approval | str, note: str = "", *, by: str = "") -> Approval:
        """Refuse the work of an approval; like `approve` otherwise."""
        return self._decide(approval, "rejected", note, by)

    def expire(self, approval: Approval | str) -> Approval:
        """End the time for deciding an approval now; like `approve` otherwise."""
        return self._decide(approval, "expired", "", "")

    def halt(
        self,
        *,
        run_id: str | None = None,
        session_id: str | None = None,
        agent: str | None = None,
        reason: str,
        by: str = "",
    ) -> Halt:
        """
        Let nothing more start in one run, in one session, or by one agent.

        From now on every gate of it is answered with HALT, in this process and in every other that uses the
        same file. What is running is not undone. What waits for a person there does not run. A run that was
        halted stays so; a session or an agent until `lift_halt`.

        Args:
            reason: Why; the agent is told, and the evidence keeps it.
            by: Who halts it; nobody checks it.

        Raises:
            ValueError: Not exactly one is named, or there is no reason.
        """
        halt = halt_of(
            run_id=run_id, session_id=session_id, agent=agent, reason=reason, by=by, at=self._clock()
        )
        self._apart(self._write_halt, halt)
        return halt

    def lift_halt(self, *, session_id: str | None = None, agent: str | None = None) -> int:
        """
        Let runs begin again in a session, or by an agent, that was halted. Those that were halted stay so.

        Returns:
            How many halts were lifted.

        Raises:
            ValueError: Not exactly one is named.
        """
        halt = halt_of(run_id=None, session_id=session_id, agent=agent, reason="lifted", by="", at=0.0)
        return self._apart(self._store.lift_halt, halt.kind, halt.value)

    def halts(self) -> list[Halt]:
        """List the halts in force, oldest first."""
        return self._apart(self._store.halts)

    def _write_halt(self, halt: Halt) -> None:
        with self._store.together():
            self._store.add_halt(halt)
            self._desk.withdraw(halt)

    def wait_for_approval(self, timeout: float = 5.0) -> Approval:
        """
        Wait in this thread until an approval is pending, and return the oldest.

        Raises:
            TimeoutError: There was none in time.
        """
        deadline = time.monotonic() + timeout
        came = threading.Event()
        with self._listeners.told(lambda approval: came.set()):
            while not (pending := self.pending_approvals()):
                came.clear()
                if not came.wait(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError(f"nothing asked for an approval within {timeout} s")
        return pending[0]

    async def await_approval(self, timeout: float = 5.0) -> Approval:
        """Wait like `wait_for_approval`, while other tasks run."""
        loop = asyncio.get_running_loop()
        came = asyncio.Event()
        with self._listeners.told(lambda approval: loop.call_soon_threadsafe(came.set)):
            try:
                async with asyncio.timeout(timeout):
                    while not (pending := self.pending_approvals()):
                        came.clear()
                        await came.wait()
            except TimeoutError:
                raise TimeoutError(f"nothing asked for an approval within {timeout} s") from None
        return pending[0]

    @property
    def waits(self) -> bool:
        """Tell whether answers may take time: there is a policy, or guardrails."""
        return not self._judge.at_once

    @property
    def policy_counts(self) -> PolicyCounts:
        """Count how often the policy was asked, and how often it did not answer."""
        return self._judge.counts

    def close(self) -> None:
        """
        Stop answering requests, which get a 503 from now on, also those that wait for the policy.

        Ends the process that evaluates Rego. May be called twice.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._store.close()
        self._judge.close()
        self._listeners.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _apart(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        # In a context of its own: the agent's process may govern database queries, and would govern
        # these as well, as if the running activity had made them.
        with self._lock:
            if self._closed:
                raise CoreClosedError("the local Core is closed")
            return contextvars.Context().run(work, *args, **kwargs)

    def _decide(self, approval: Approval | str, state: State, note: str, by: str) -> Approval:
        wanted = approval.id if isinstance(approval, Approval) else approval
        return self._apart(self._desk.decide, wanted, state, note=note, by=by)

    def start_anew(self) -> None:
        """Go on in a forked process: without the parent's threads, processes, locks and connections."""
        self._lock = threading.RLock()
        if not self._closed:
            self._judge.start_anew()
            contextvars.Context().run(self._store.start_anew)


def _failed(error: Exception) -> HttpAnswer:
    if isinstance(error, CoreClosedError):
        return error_answer(WireError(503, "closed", "the local Core is closed"))
    # Fail-closed: a client must get an answer whatever happens here, and a 500 is one that it does not take
    # for an ALLOW of the policy.
    logger.error("the local Core failed: %s", place_of(error))
    return error_answer(WireError(500, "internal", "the local Core failed"))
