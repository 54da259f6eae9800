"""One tool call through governance: what registry, Toolbase and executor have in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from agent_rt import (
    ApprovalRequest,
    ApprovalRequiredError,
    ToolArgumentValidationError,
    ToolCall,
    ToolDefinition,
    ToolSideEffect,
    validate_tool_arguments,
)

from .._activity.activity import Activity, ApprovalPending
from .._activity.decide import decide, resume, take_over
from .._activity.judged_input import snapshot
from .._activity.perform import perform
from .._activity.request import tool_request
from .._run.current import current_run
from .._run.paused.fleet_parking import call_digest
from .._run.paused.suspended_runs import call_key
from .._run.record import write
from .._run.told_input import told_again
from ..acel.contracts.conditions import collect_checks
from ..decision import Verdict
from ..errors import GovernanceBlockedError, GovernanceError
from .denial import denial, is_soft
from .tool_run import ToolRun, remember_result

if TYPE_CHECKING:
    from .._run.paused.parked_run import ParkedCall
    from .._run.runs import Runs
    from .._run.state import RunState
    from ..acel.session import Session

Invoke = Callable[[ToolCall, ToolRun], Awaitable[Any]]


class _BrokenSchemaError(GovernanceBlockedError):
    """Refuse a call whose arguments, once redacted, are none that its tool takes: the run goes on."""


async def call_tool(
    judge: Runs,
    call: ToolCall,
    invoke: Invoke,
    *,
    definition: ToolDefinition | None = None,
    side_effect: ToolSideEffect | None = None,
    prepares: bool = False,
    handler: Callable[..., Any] | None = None,
) -> Any:
    """
    Have `call` judged, and run it if it may.

    Args:
        invoke: Runs a call that was judged; gets the call with the arguments to use.
        definition: The tool's own; redacted arguments that its schema does not take are a denial.
        side_effect: What the tool is declared to do.
        prepares: Whether `invoke` says itself when the tool begins to run, through `ToolRun.run`.
        handler: The function that the tool runs; conditions that decorate it apply.

    Raises:
        GovernanceError: The call may not run, or the run was halted while it ran.
        ApprovalRequiredError: A person has to decide, and the loop can pause for it.
    """
    run = judge.around(call.name)
    if run.contracts is not None:
        run.unjudged_calls.pop(call.id, None)
        _adopt_conditions(run.contracts, call.name, handler)
    pauses = run.pausable and judge.options.approval_mode == "pause"
    key = call_key(call.id, call.name, call.arguments) if pauses else ""
    # In a run that has not been resumed, a second call with the same id and arguments is another call.
    waiting = _waiting_call(run, key) if run.resumed else None
    activity, is_own_copy = None, False
    try:
        arguments = run.redactions.value(call.arguments)
        if arguments is not call.arguments:
            _check_schema(definition, arguments)
        if waiting is None:
            copied, is_own_copy = snapshot(arguments)
            activity = Activity(run, tool_request(run, call.name, copied, side_effect=side_effect))
            await decide(activity)
        elif isinstance(waiting, Activity):
            activity = waiting
            await resume(activity)
        else:
            activity = _activity_of(waiting, call, arguments, side_effect)
            arguments = activity.request.arguments
            await take_over(activity, waiting)
        if activity.content is not activity.request.content:
            await _check_content(activity, definition)
        untouched = arguments is call.arguments and activity.content is activity.request.content
        ready = call if untouched else replace(call, arguments=activity.content)
        shared = not (untouched and is_own_copy)
        tool_run = ToolRun(activity, call, side_effect=side_effect, shared=shared)
        value = await perform(activity, partial(invoke, ready, tool_run), runs_at_once=not prepares)
        return await tool_run.end(value)
    except ApprovalPending:
        assert activity is not None  # only an activity that exists can wait
        run.paused.setdefault(key, []).append(activity)
        raise _approval_required(call, activity, side_effect) from None
    except GovernanceError as error:
        if isinstance(error, _BrokenSchemaError):
            write(run, call.name, error.verdict, "core", {"reason": error.reason, "redacted": True})
        elif judge.options.on_tool_block != "return_error" or not is_soft(error):
            raise
        return remember_result(run, call.id, denial(call.name, error))


def _check_schema(definition: ToolDefinition | None, arguments: Mapping[str, Any]) -> None:
    if definition is None:
        return
    try:
        validate_tool_arguments(definition, arguments)
    except ToolArgumentValidationError as error:
        reason = f"its arguments, once redacted, do not fit its schema: {'; '.join(error.issues)}"
        raise _BrokenSchemaError(reason, event=definition.name) from None


async def _check_content(activity: Activity, definition: ToolDefinition | None) -> None:
    try:
        _check_schema(definition, activity.content)
    except _BrokenSchemaError as error:
        await activity.fail(error)
        raise


async def run_skipped(call: ToolCall, work: Awaitable[Any]) -> Any:
    """Run a tool that is not governed. What it gives is not put to Core with the next model call either."""
    run = current_run()
    if run is None:
        return await work
    write(run, call.name, Verdict.ALLOW, "skipped")
    return remember_result(run, call.id, await work)


def _waiting_call(run: RunState, key: str) -> Activity | ParkedCall | None:
    """Find the call among those that wait for a person, in this process or as another one has left them."""
    paused: list[Activity] = run.paused.get(key, [])
    if paused:
        activity = paused.pop(0)
        if not paused:
            del run.paused[key]
        return activity
    parked: list[ParkedCall] = run.taken_over.get(call_digest(key), []) if run.taken_over else []
    return parked.pop(0) if parked else None


def _activity_of(
    parked: ParkedCall, call: ToolCall, arguments: Mapping[str, Any], side_effect: ToolSideEffect | None
) -> Activity:
    """Make the activity of a call that another process left waiting, of what was judged there."""
    if parked.carried is not None:
        # It was not redacted yet as it is now.
        judged = parked.carried.judged
        arguments = call.arguments if judged is None else told_again(judged, call.arguments)
    copied, _ = snapshot(arguments)
    row = parked.activity_id
    return Activity(
        parked.run, tool_request(parked.run, call.name, copied, side_effect=side_effect, activity_id=row)
    )


def _approval_required(
    call: ToolCall, activity: Activity, side_effect: ToolSideEffect | None
) -> ApprovalRequiredError:
    answer = activity.answer
    assert answer is not None  # a person is asked only because of an answer
    return ApprovalRequiredError(
        ApprovalRequest(
            id=answer.approval_id or activity.id,
            call=call,
            side_effect=side_effect or "none",
            reason=answer.reason or f"approval required for tool: {call.name}",
            session_id=activity.run.session_id,
        )
    )


def _adopt_conditions(contracts: Session, tool: str, handler: object) -> None:
    """Let preconditions and postconditions that decorate a tool's handler apply to the tool."""
    if not callable(handler):
        return
    before, after = collect_checks(handler)
    # What was registered for the tool on purpose comes first.
    if (before or after) and not contracts.has_conditions(tool):
        contracts.register(handler, name=tool)
