"""
Answers to openbox_core's own hooks, made safe for its parser.

An HTTP request or a query inside a tool is put to Core by openbox_core itself. Its parser takes an unknown
verdict for ALLOW, its client takes a 422 for an outage, and its hooks overlook guardrails and constraints.
The gate does not see these answers, so what they have to mean is written into them before openbox_core
reads them.
"""

from __future__ import annotations

import json
from typing import Any, Final

import httpx
from openbox_core.contracts.results import Verdict

from ..._plain.strict_json import JsonError
from ...decision import Answer
from ..parsing import SANDBOX, UnknownVerdict, decoded, parse_answer
from ..transport.exchange import is_outage_status

LOCAL_MARK: Final = "openbox_agentrt_local"
"""Key in the raw answer which says that the verdict is not Core's."""


def hardened(
    request: httpx.Request,
    response: httpx.Response,
    *,
    on_unknown: UnknownVerdict,
    fail_closed: bool = False,
) -> httpx.Response:
    """
    Give `response`, or one that says in Core's plainest words what it has to mean.

    Args:
        fail_closed: Refuse what has any constraint, named or not: nobody can put it in place here. Otherwise
            only the sandbox is one that must not be passed over.
    """
    status = response.status_code
    if status in (401, 403) or is_completed_stage(request):
        # Raised, or a report about something that has already happened: as openbox_core has it.
        return response
    if is_outage_status(status):
        # A no that stands in an error is one, and without any it is an outage.
        return _no_in(request, response) or response
    if not 200 <= status < 300:
        return _answer(request, Verdict.BLOCK, f"core did not take the event: HTTP {status}", local=True)
    try:
        raw = decoded(response.content)
    except JsonError as error:
        reason = f"core's answer was not understood: it is not one JSON document: {error}"
        return _answer(request, Verdict.BLOCK, reason, local=True)
    answer = parse_answer(raw, on_unknown=on_unknown)
    if answer.verdict.should_stop():
        return _answer(request, answer.verdict, answer.reason, local=answer.local, raw=raw)
    refusal = _refusal(answer, fail_closed)
    if refusal is not None:
        return _answer(request, Verdict.BLOCK, refusal, raw=raw)
    return _answer(request, answer.verdict, answer.reason, raw=raw)


def _no_in(request: httpx.Request, response: httpx.Response) -> httpx.Response | None:
    try:
        raw = decoded(response.content)
    except JsonError:
        return None
    answer = parse_answer(raw)
    if answer.local or not answer.verdict.should_stop():
        return None
    return _answer(request, answer.verdict, answer.reason, local=True, raw=raw)


def _refusal(answer: Answer, fail_closed: bool) -> str | None:
    if answer.guardrails is not None and not answer.guardrails.validation_passed:
        return "; ".join(answer.guardrails.reasons) or "the guardrails did not pass"
    if fail_closed and answer.verdict is Verdict.CONSTRAIN and not answer.constraints:
        return "core constrains it and names no constraint"
    unmet = answer.constraints if fail_closed else [name for name in answer.constraints if name == SANDBOX]
    return f"constraint {unmet[0]!r} cannot be satisfied here" if unmet else None


def is_completed_stage(request: httpx.Request) -> bool:
    """Tell whether `request` is about something that has happened already."""
    try:
        spans = json.loads(request.content).get("spans")
        return bool(spans) and spans[0].get("stage") == "completed"
    except (ValueError, AttributeError, TypeError, KeyError, httpx.RequestNotRead):
        return False  # the strict reading: something that may still be stopped


def _answer(
    request: httpx.Request, verdict: Verdict, reason: str | None, *, local: bool = False, raw: Any = None
) -> httpx.Response:
    kept = ("policy_id", "governance_event_id", "approval_id", "approval_expiration_time")
    body: dict[str, Any] = {"verdict": verdict.value, "reason": reason}
    if isinstance(raw, dict):
        body |= {name: raw[name] for name in kept if isinstance(raw.get(name), str)}
    if local:
        body[LOCAL_MARK] = True
    # In ASCII: half a character in a reason could not be written otherwise, and the answer would be lost.
    content, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
    return httpx.Response(200, content=content, headers=headers, request=request)
