"""Pages of the calls that wait for a person, and what a form about one does."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ..local_core import UndecidableApprovalError
from ..local_core.approvals import Approval
from . import inbox, values, words
from .rendering import WritesPages
from .sessions import LiveSessions
from .sources import Sources
from .words import whole_number

logger = logging.getLogger(__name__)


class Approvals:
    """Answer requests about approvals. Its methods run in threads of their own."""

    def __init__(self, sources: Sources, site: WritesPages, sessions: LiveSessions) -> None:
        self._sources = sources
        self._site = site
        self._sessions = sessions

    def approvals(self, request: Request) -> Response:
        return self._site.page(
            request,
            "approvals",
            "/approvals",
            inbox=inbox.inbox(
                self._sources, self._sessions, skip=whole_number(request.query_params.get("skip"))
            ),
            PAGE=inbox.PAGE,
            opened=request.query_params.get("open", ""),
        )

    def approval(self, request: Request) -> Response:
        approval = self._sources.reader.approval(request.path_params["id"])
        if approval is None:
            return Response("there is no such approval\n", 404)
        said = _already(approval, self._sources.now()) if "said" in request.query_params else None
        return self._one(request, approval, said)

    def decide(self, request: Request) -> Response:
        form: Mapping[str, str] = request.state.form
        sources = self._sources
        approval = sources.reader.approval(request.path_params["id"])
        if approval is None:
            return Response("there is no such approval\n", 404)
        shown = values.arguments_of(sources.shown(approval.event)).sha256
        if form.get("shown") != shown:
            return self._one(request, approval, _CHANGED, status=409, note=form.get("note", ""))
        answers = {"approve": sources.core.approve, "reject": sources.core.reject}
        answer = answers.get(form.get("do", ""))
        if answer is None:
            return Response("the form says neither approve nor reject\n", 400)
        try:
            answer(approval.id, form.get("note", "").strip(), by=sources.who)
        except UndecidableApprovalError:
            latest = sources.reader.approval(approval.id) or approval
            return self._one(request, latest, _already(latest, sources.now(), late=True), status=409)
        except Exception as error:  # noqa: BLE001
            # Whatever it was, nothing is decided: the person is told so, and may try again.
            logger.error("Core did not take a decision: %s", type(error).__name__)
            return self._one(
                request, approval, _not_taken(approval, sources.now()), 503, form.get("note", "")
            )
        return RedirectResponse("/approvals", 303)

    def whole(self, request: Request) -> Response:
        approval = self._sources.reader.approval(request.path_params["id"])
        named = [] if approval is None else _listed(self._sources, approval)
        index = request.path_params["index"]
        if approval is None or index >= len(named):
            return Response("there is no such value\n", 404)
        value = named[index][1]
        text = values.text_of(value)
        about = f"{len(text):,} characters of the argument in position {index + 1}, as judged"
        return self._site.page(
            request, "whole", "/approvals", approval_id=approval.id, about=about, whole=values.pieces(text)
        )

    def _one(
        self, request: Request, approval: Approval, message: Any, status: int = 200, note: str = ""
    ) -> Response:
        card = inbox.card_of(self._sources, self._sessions, approval)
        return self._site.page(
            request,
            "approval",
            "/approvals",
            status=status,
            card=card,
            headline=_HEADLINES[card.state],
            message=message,
            note=note,
        )


_CHANGED = (
    "wait",
    "alarm",
    "The arguments are not those that you saw",
    "They changed after this page was made. Nothing was decided. Look at them again below.",
    "",
)
_HEADLINES = {
    "pending": "waits for you",
    "approved": "was approved",
    "rejected": "was rejected",
    "expired": "was answered by nobody",
}


def _listed(sources: Sources, approval: Approval) -> Sequence[tuple[str, Any]]:
    return values.listed_values(values.named_values(sources.shown(approval.event)))


def _already(approval: Approval, now: float, *, late: bool = False) -> tuple[str, ...] | None:
    state = approval.as_of(now)
    unused = " Your answer was not used." if late else ""
    if state == "pending":
        return None
    if state == "expired":
        if approval.decided_at is not None and approval.decided_at < (approval.expires_at or float("inf")):
            body = "The run ended before anyone answered. There is nothing left to decide."
            return ("", "open", "Withdrawn", body, "soft")
        waited = words.left((approval.expires_at or now) - approval.created_at)
        body = f"Nobody answered within {waited}, so it did not run. The agent was told, and may ask again."
        return ("", "wait", "Expired while you were reading", body, "soft")
    ago = words.age(now - (approval.decided_at or now))
    note = f': "{approval.note}"' if approval.note else "."
    who = approval.decided_by or "Somebody"
    body = f"{who} {state} this call {ago} ago in another window{note}{unused}"
    return ("", "approval", "Already decided", body, "soft")


def _not_taken(approval: Approval, now: float) -> tuple[str, ...]:
    left = "" if approval.expires_at is None else f", {words.left(approval.expires_at - now)} left"
    body = f"Nothing was decided, the call still waits{left}. Your note is kept below."
    return ("bad", "alarm", "Core did not take the decision", body, "")
