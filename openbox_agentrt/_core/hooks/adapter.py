"""
Verdicts on nested I/O - an HTTP request or a query inside a tool - turned into our errors.

openbox_core's hooks ask Core themselves and call this adapter with the result. A tool can swallow the error
that it raises, so every refusal is handed to the `HookRecorder` first, which outlives the tool.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NoReturn, Protocol

from openbox_core.contracts.results import EvaluationResult, Verdict
from openbox_core.errors import GovernanceAPIError

from ..._errors.refusals import raise_for_answer
from ..._wire.error_info import scrub
from ...decision import Answer
from ...errors import (
    ApprovalRejectedError,
    GovernanceError,
    GovernanceHaltError,
    GovernanceUnavailableError,
)
from ..approvals import ApprovalKey
from ..gate import CoreGate
from ..parsing import parse_answer
from .answers import LOCAL_MARK

if TYPE_CHECKING:
    from openbox_core.context import ContextStore
    from openbox_core.contracts.context import ActivityContext


class HookRecorder(Protocol):
    """Tell a run what became of its nested I/O."""

    def refused(self, error: GovernanceError, *, latches: bool, context: ActivityContext | None) -> None:
        """
        Nested I/O was refused, or was judged too late.

        Args:
            error: What is raised in the tool; with `ran` set, the I/O has already happened.
            latches: Whether the run is halted from here on.
            context: The activity that it belongs to, as far as it is known.
        """

    def cancelled(self, context: ActivityContext | None) -> GovernanceError | None:
        """Give the reason for which the activity may not go on, such as a halt; None when it may."""


class HookAdapter:
    """
    openbox_core's `FrameworkAdapter` for Agent-RT.

    Args:
        store: Where the current activity is looked up when openbox_core does not name it.
        recorder: Told of every refusal before it is raised.
    """

    name = "agentrt"

    def __init__(self, store: ContextStore, recorder: HookRecorder) -> None:
        self._store = store
        self._recorder = recorder
        self._gate: CoreGate | None = None

    def use(self, gate: CoreGate) -> None:
        """Wait for approvals through `gate`. Without one, what needs an approval is refused."""
        self._gate = gate

    async def handle_approval(self, result: EvaluationResult, context: ActivityContext | None = None) -> None:
        """Wait for a person, then look again whether the run still goes on."""
        context = context or self._store.current_activity_context()
        gate = self._gate
        if gate is None or context is None or not (context.workflow_id and context.run_id):
            self._refuse(ApprovalRejectedError("there is nobody who could be asked"), context)
        try:
            key = ApprovalKey.of(
                _answer(result),
                workflow_id=context.workflow_id,
                run_id=context.run_id,
                activity_id=context.activity_id or "",
                event=context.activity_type,
            )
            await gate.approve(key, cancelled=lambda: self._recorder.cancelled(context))
        except GovernanceError as error:
            self._refuse(error, context)

    def handle_approval_sync(self, result: EvaluationResult, context: ActivityContext | None = None) -> None:
        """
        The same from synchronous I/O. On the thread of an event loop it refuses: waiting there would stop
        every other run, and the person's answer with them.
        """
        context = context or self._store.current_activity_context()
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            asyncio.run(self.handle_approval(result, context))
            return
        error = ApprovalRejectedError(
            "synchronous input or output cannot wait for a person on the thread of an event loop",
            event=None if context is None else context.activity_type,
            remedy="use an asynchronous client, or asyncio.to_thread",
        )
        self._refuse(error, context)

    def raise_lifecycle_blocked(self, result: EvaluationResult) -> NoReturn:
        """A lifecycle verdict; only runtimes that are driven by hand come here."""
        self.raise_hook_blocked(result)

    def raise_hook_blocked(self, result: EvaluationResult) -> NoReturn:
        """The I/O has not happened, and does not."""
        context = self._store.current_activity_context()
        answer = _answer(result)
        event = None if context is None else context.activity_type
        if "fail_closed_error" in result.raw:
            self._not_judged(result, context)
        try:
            raise_for_answer(answer, event=event)
        except GovernanceError as error:
            self._refuse(error, context, latches=answer.latches)
        # openbox_core calls this for nothing but a refusal; it is one whatever the result says.
        self._refuse(ApprovalRejectedError(answer.reason, event=event), context)

    def on_completed_hook_result(
        self, result: EvaluationResult, context: ActivityContext | None = None
    ) -> None:
        """The I/O has happened. A HALT of Core's stops what comes after it; nothing is raised here."""
        answer = _answer(result)
        if answer.latches:
            event = None if context is None else context.activity_type
            error = GovernanceHaltError(
                answer.reason or "halted by policy", event=event, policy_id=answer.policy_id, ran=True
            )
            self._recorder.refused(error, latches=True, context=context)

    def _not_judged(self, result: EvaluationResult, context: ActivityContext | None) -> NoReturn:
        """
        Refuse one request that Core could not be asked about.

        openbox_core makes a HALT of that, and stops the activity for good. But nobody has said anything about
        either: the next request is asked about again.
        """
        outage = result.raw.get("error_type") == GovernanceAPIError.__name__
        error = GovernanceUnavailableError(
            scrub(str(result.raw["fail_closed_error"])),
            kind="outage" if outage else "refused",
            event=None if context is None else context.activity_type,
        )
        if context is not None:
            self._store.clear_activity_aborted(context.workflow_id, context.activity_id)
        self._refuse(error, context)

    def _refuse(
        self, error: GovernanceError, context: ActivityContext | None, *, latches: bool = False
    ) -> NoReturn:
        self._recorder.refused(error, latches=latches, context=context)
        raise error


def _answer(result: EvaluationResult) -> Answer:
    """
    openbox_core makes up results too: a HALT for an outage, a BLOCK for an activity that was stopped
    before.
    """
    local = result.fallback_used or LOCAL_MARK in result.raw or not result.raw
    if local:
        return Answer(verdict=result.verdict, reason=result.reason, local=True, made_up=result)
    answer = parse_answer(result.raw)
    if answer.verdict.priority < Verdict.BLOCK.priority <= result.verdict.priority:
        return Answer(verdict=result.verdict, reason=result.reason, raw=result.raw)
    return answer
