"""
The one place where the judges are joined: an earlier halt, the local contracts, Core, and people.

They are asked in this order and the stricter answer wins. Nothing is asked that cannot change the outcome:
a call that the contracts refuse costs no round trip. A reservation that the contracts made is taken back
when anybody after them objects, so a call that never ran has not happened. Every activity leaves one decision
behind.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from openbox_core.errors import OpenBoxAuthError

from .._errors.refusals import error_of
from .._run import contract_events
from .._run.record import facts_of
from ..decision import MISSING, Verdict
from ..errors import (
    ContractRefusedError,
    GovernanceError,
    GovernanceHaltError,
    GovernanceUnavailableError,
    GuardrailsValidationError,
)
from .activity import ApprovalPending
from .approval import ask_person
from .obligations import put_in_place

if TYPE_CHECKING:
    from .._run.paused.parked_run import ParkedCall
    from ..decision import Answer
    from ..fleet.answers import Lease
    from .activity import Activity
    from .request import DecisionRequest


LONG_WAIT = 1.0
"""Seconds after which the contracts are asked again about what is about to run."""


async def decide(activity: Activity) -> None:
    """
    Let `activity` happen, or raise what forbids it.

    Raises:
        GovernanceError: Somebody objected, or could not be asked and may not be passed over. It is closed.
        ApprovalPending: A person has to decide and the run can pause for it. It stays open.
    """
    run, request = activity.run, activity.request
    began = perf_counter()
    if run.keeps_decisions:
        activity.digest_arguments()
    try:
        _check_run(activity)
        if run.contracts is not None:
            await reserve(activity, started=request.envelope is None)
        if request.envelope is None:
            _allow(activity, None)
            return
        if activity.reservation is not None:
            _check_run(activity)
        if run.is_behind():
            # Core judges nothing without having heard of what came before. It may answer that with a HALT.
            await run.catch_up()
            _check_run(activity)
        answer = await _ask_core(activity)
        if answer.verdict is not Verdict.ALLOW or answer.guardrails is not None or request.owed is not None:
            await _act_on(activity, answer)
        if activity.reservation is not None:
            if perf_counter() - began > LONG_WAIT or "approval_seconds" in activity.facts:
                await _judge_again(activity)
            if activity.reservation.has_to_start:
                await _start(activity)
        _allow(activity, answer)
    except BaseException as error:
        await _stop(activity, error)
        raise


async def resume(activity: Activity) -> None:
    """
    Go on with an activity that waits for a person. Core does not judge it again: that would reset what the
    person decided. The contracts do: what allowed it may be gone.

    Raises:
        GovernanceError: The person said no, the approval ran out, or a contract refuses it now. It is closed.
        ApprovalPending: Nobody has decided yet.
    """
    answer = activity.answer
    if activity.state != "waiting" or answer is None:
        raise RuntimeError("the activity is not waiting for an approval")
    activity.denied = None
    activity.refusals.clear()
    try:
        _check_run(activity)
        if activity.take_released():
            await reserve(activity, lease=activity.lease_to_reserve())
        await ask_person(activity, answer, again=True)
        activity.guards = await put_in_place(activity, answer)
        await _judge_again(activity)
        await _start(activity)
        _allow(activity, answer)
    except BaseException as error:
        await _stop(activity, error)
        raise


async def take_over(activity: Activity, call: ParkedCall) -> None:
    """
    Go on with a call that another process left waiting for a person, as `resume` does.

    What contracts of the fleet have reserved for it is held by its lease. Those of the session judge it anew,
    since their memory is that of a process.

    Raises:
        GovernanceError: As of `resume`.
        ApprovalPending: As of `resume`.
    """
    activity.move("ask")
    activity.answer = call.answer
    activity.facts.update(facts_of(call.answer))
    if call.carried is not None and call.carried.used is not None:
        activity.use(call.carried.used)
    if activity.run.keeps_decisions:
        activity.digest_arguments()
    activity.move("wait")
    try:
        await reserve(activity, lease=call.lease)
    except BaseException as error:
        await _stop(activity, error)
        raise
    finally:
        held = None if activity.reservation is None else activity.reservation.lease
        if held is None or held.id != call.lease.id:
            call.store.finish(call.lease, "undo")
    await resume(activity)


async def decide_again(activity: Activity, request: DecisionRequest) -> None:
    """
    Have `request` judged in the place of what was judged before.

    The refusal is kept in `Activity.denied` as well, since whoever prepares the work may swallow it.

    Raises:
        GovernanceError: As of `decide`.
        ApprovalPending: As of `decide`.
    """
    activity.anew(request)
    try:
        await decide(activity)
    except (GovernanceError, ApprovalPending) as error:
        activity.denied = error
        raise


async def reserve(activity: Activity, *, started: bool = False, lease: Lease | None = None) -> None:
    """
    Have the contracts judge the activity, if there are any. What they allow is in flight from here on.

    Args:
        activity: The activity.
        started: Whether it runs as soon as they allow it.
        lease: What is reserved for it in the store of the fleet already.

    Raises:
        ContractRefusedError: They refuse it.
    """
    contracts, request = activity.run.contracts, activity.request
    if contracts is None:
        return
    activity.reservation = await contract_events.reserve(
        activity.run,
        contracts,
        request.event,
        request.arguments,
        activity.facts,
        deferred=request.deferred,
        started=started,
        lease=lease,
    )


async def _judge_again(activity: Activity) -> None:
    """Have the contracts judge again what has waited since they did."""
    reservation = activity.reservation
    if reservation is None:
        return
    try:
        await contract_events.judge_again(activity.run, reservation, activity.request.event, activity.facts)
    except ContractRefusedError as error:
        activity.reservation = None
        activity.decision = error.decision
        raise


async def _start(activity: Activity) -> None:
    """
    Let the contracts of the fleet know that the work runs now.

    Raises:
        ContractRefusedError: What was reserved was given back meanwhile, and the call is refused now.
    """
    reservation = activity.reservation
    if reservation is None or not reservation.has_to_start:
        return
    if not await reservation.astart():
        activity.reservation = None
        raise contract_events.refused_by(activity.run, activity.request.event, reservation, activity.facts)
    if reservation.alone:
        activity.facts["fleet"] = "local"


def _check_run(activity: Activity) -> None:
    refusal = activity.run.refusal(activity.request.event)
    if refusal is None:
        return
    if isinstance(refusal, GovernanceHaltError):
        activity.refused(refusal, Verdict.HALT, "halted", reason=refusal.reason)
    raise refusal


async def _ask_core(activity: Activity) -> Answer:
    request, facts = activity.request, activity.facts
    assert request.envelope is not None
    event = activity.unheard = request.envelope()
    activity.move("ask")
    began = perf_counter()
    try:
        answer = await activity.run.services.core.judge(event, destructive=request.destructive)
    except GovernanceUnavailableError as error:
        facts["core_seconds"] = perf_counter() - began
        facts["unreachable"] = error.kind == "outage"
        if error.kind == "refused":
            activity.unheard = None  # Core has it, and does not take it
        activity.refused(error, Verdict.BLOCK, "unreachable", reason=error.reason)
        raise
    facts["core_seconds"] = perf_counter() - began
    facts.update(facts_of(answer))
    activity.answer = answer
    if answer.unreachable:
        activity.run.ungoverned += 1
    else:
        activity.unheard = None
    return answer


async def _act_on(activity: Activity, answer: Answer) -> None:
    """Raise what the answer forbids, and do all that it requires before the work runs."""
    _refuse(activity, answer)
    _redact(activity, answer)
    await ask_person(activity, answer)
    activity.guards = await put_in_place(activity, answer)


def _refuse(activity: Activity, answer: Answer) -> None:
    """Raise what the answer forbids."""
    error = error_of(answer, event=activity.request.event)
    if error is None:
        return
    reason = "; ".join(error.reasons) if isinstance(error, GuardrailsValidationError) else None
    if not isinstance(error, GovernanceHaltError):
        raise activity.refused(error, Verdict.BLOCK, reason=reason or None)
    activity.refused(error, Verdict.HALT, reason=None)
    if answer.latches:
        activity.run.halt(error, took_effect=True)
    raise error


def _redact(activity: Activity, answer: Answer) -> None:
    """Use what Core put in the place of the input."""
    guardrails, request = answer.guardrails, activity.request
    if guardrails is None or guardrails.redacted_input is MISSING:
        return
    try:
        content = request.fitted(guardrails.redacted_input)
        activity.run.redactions.learn(request.content, content)
    except GovernanceUnavailableError as error:
        # Fail-closed: the raw input is never used in the place of a redaction that does not fit.
        raise activity.refused(error, Verdict.BLOCK, reason=error.reason) from None
    if content is not request.content:
        activity.use(content)
        if activity.run.keeps_decisions:
            activity.digest_arguments()


def _allow(activity: Activity, answer: Answer | None) -> None:
    """Write that it may run, after a last look: meanwhile, another call may have halted the run."""
    if answer is None:
        activity.write(Verdict.ALLOW, "disabled")
    else:
        _check_run(activity)
        activity.write(answer.verdict, "unreachable" if answer.unreachable else "core")
    activity.move("allow")


async def _stop(activity: Activity, error: BaseException) -> None:
    """Close an activity that may not run, or was interrupted: Core may have a row for it by now."""
    if isinstance(error, ApprovalPending):
        return  # it waits, and stays open
    if activity.decision is None:
        if isinstance(error, GovernanceHaltError):
            activity.refused(error, Verdict.HALT, "halted", reason=error.reason)
        elif isinstance(error, GovernanceUnavailableError):
            activity.refused(error, Verdict.BLOCK, "unreachable", reason=error.reason)
        elif isinstance(error, OpenBoxAuthError):
            activity.facts["reason"] = str(error)
            activity.write(Verdict.BLOCK, "unreachable")
    activity.tell_enclosing(error)
    await activity.fail(error)
