"""One model call through governance: what provider and stream have in common."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent_rt import ModelRequest, ModelResponse

from .._activity.screening import check_redacted, judge_input, take_prescreen
from .._wire.model_input import message_elements
from ..decision import MISSING
from ..errors import GovernanceUnavailableError
from ..lifecycle_events import LLM_ACTIVITY
from ..message_extraction import redacted_output, response_output, with_text

if TYPE_CHECKING:
    from .._activity.activity import Activity
    from .._run.runs import Runs
    from .._run.state import RunState
    from ..decision import Answer

log = logging.getLogger(__name__)


async def begin_model_call(judge: Runs, request: ModelRequest) -> tuple[Activity, ModelRequest]:
    """
    Have a model call judged.

    Returns:
        The activity, and the request to send: `request` itself when nothing in it was redacted.

    Raises:
        GovernanceError: The model may not be called.
    """
    run = judge.around(LLM_ACTIVITY)
    activity = await take_prescreen(run, request.messages)
    if activity is None:
        activity = await judge_input(run, request.messages, model=request.model)
    redacted = redacted_request(run, request)
    await check_redacted(activity, redacted.messages)
    return activity, redacted


def redacted_request(run: RunState, request: ModelRequest) -> ModelRequest:
    """Copy `request` without what was redacted so far; `request` itself when nothing of that is in it."""
    messages = run.redactions.messages(request.messages)
    return request if messages is request.messages else replace(request, messages=messages)


async def end_model_call(activity: Activity, response: ModelResponse) -> tuple[ModelResponse, Answer | None]:
    """
    Report a model's response.

    Returns:
        The response to hand on - redacted, where outputs are - and Core's answer to the report.
    """
    output = response_output(response)
    answer = await activity.complete(
        output, result=output, measured=_measured(activity.run, response, output)
    )
    run, options = activity.run, activity.run.services.options
    if options.redact_outputs:
        response = _redacted_response(run, response, output, answer)
    if answer is not None or not options.send_llm_end_event or options.reports_in_background:
        # Core has been told, or nobody wants it to be.
        run.judged.remember(message_elements(run.redactions.messages((response.message,))))
    return response, answer


def _measured(run: RunState, response: ModelResponse, output: Mapping[str, Any]) -> dict[str, Any]:
    measured = {
        name: output[name]
        for name in ("input_tokens", "output_tokens", "total_tokens")
        if output[name] is not None
    }
    if run.estimate_cost is not None:
        try:
            measured["cost"] = max(0.0, float(run.estimate_cost(response)))
        except Exception:
            # Fail-closed: a contract over a cost that nobody knows refuses the next call.
            log.exception("the cost of a model call could not be estimated")
    return measured


def _redacted_response(
    run: RunState, response: ModelResponse, output: Mapping[str, Any], answer: Answer | None
) -> ModelResponse:
    text = output["completion"]
    if answer is None:
        options = run.services.options
        if options.send_llm_end_event and options.withholds_unjudged_output():
            # Fail-closed: nobody has said whether there is something in the text that must not be seen.
            log.warning("core could not be told of a model's output; its text is withheld")
            text = ""
    elif answer.guardrails is not None and answer.guardrails.redacted_input is not MISSING:
        try:
            text = redacted_output(output, answer.guardrails.redacted_input)["completion"]
        except GovernanceUnavailableError:
            # Fail-closed for the text: what cannot be redacted is taken out, since the answer said that it
            # must be.
            log.warning("the redaction of a model's output does not fit; its text is withheld")
            text = ""
    message = response.message
    if text != output["completion"]:
        run.redactions.learn(output["completion"], text or "")
        message = with_text(message, text or "")
    # Core was not shown what it has redacted before, and says nothing about it.
    (message,) = run.redactions.messages((message,))
    return response if message is response.message else replace(response, message=message, raw=None)
