"""The console as an application: which address shows what, and what a form does."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from ..fleet.errors import FleetError
from ..local_core import UndecidableApprovalError
from ..local_core.approvals import Approval
from ..local_core.reading import RunRow
from . import inbox, values, words
from .access import SIGNED_IN_SECONDS, Access, AccessGuard
from .api import api_routes
from .rendering import write_page
from .reporting import Reports
from .sessions import LiveSessions
from .sources import Sources
from .steps import Step
from .story import tell
from .stream import Pulse

RUNS = 30
STEPS = 40
_REFRESH_SECONDS = 0.2
_TYPES = {"console.css": "text/css", "console.js": "text/javascript", "icon.svg": "image/svg+xml"}

logger = logging.getLogger(__name__)


def application(sources: Sources, access: Access, where: str) -> Starlette:
    """
    Make the application of a console.

    Args:
        where: Where it is served, for whoever looks at it.
    """
    sessions = LiveSessions(sources)
    site = _Site(sources, access, where, sessions)
    reports = Reports(sources, site, sessions)
    routes = [
        Route("/sign-in", site.sign_in),
        Route("/sign-out", site.sign_out, methods=["POST"]),
        Route("/static/{name}", site.static),
        Route("/", reports.overview),
        Route("/approvals", site.approvals),
        Route("/approvals/{id}", site.approval),
        Route("/approvals/{id}", site.decide, methods=["POST"]),
        Route("/approvals/{id}/values/{index:int}", site.whole),
        Route("/runs", site.runs),
        # Whoever writes its own SDK names its runs, also with slashes: each can be seen and halted.
        Route("/runs/{id:path}/halt", site.halt, methods=["POST"]),
        Route("/runs/{id:path}", site.run),
        Route("/contracts", reports.contracts),
        Route("/contracts", reports.would, methods=["POST"]),
        Route("/shadow", reports.shadow),
        Route("/evidence", reports.evidence),
        Route("/stream", site.stream),
        *api_routes(sources, reports),
    ]
    return Starlette(
        routes=routes, middleware=[Middleware(AccessGuard, access=access)], lifespan=site.lifespan
    )


class _Site:
    """Answer requests for pages. Methods that are no coroutines run in threads of their own."""

    def __init__(self, sources: Sources, access: Access, where: str, sessions: LiveSessions) -> None:
        self._sources = sources
        self._sessions = sessions
        self._access = access
        self._where = where
        self._pulse = Pulse(sources.reader, sources.changes)

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Follow Core and the evidence while the application runs."""
        tasks = [asyncio.create_task(self._pulse.run()), asyncio.create_task(self._follow())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self) -> None:
        while True:
            await asyncio.to_thread(self._sources.refresh)
            await asyncio.sleep(_REFRESH_SECONDS)

    # What everybody may ask

    def sign_in(self, request: Request) -> Response:
        if request.method == "HEAD":
            return Response()  # whatever looks at links before a person does must not use one up
        cookie = self._access.sign_in(request.query_params.get("once", ""))
        if cookie is None:
            return Response("this link was used before: open the one that the terminal shows now\n", 401)
        # A page and no redirect: a browser that came from elsewhere would not send the cookie along.
        answer = HTMLResponse(write_page("signed_in"))
        answer.set_cookie(
            self._access.cookie,
            cookie,
            max_age=int(SIGNED_IN_SECONDS),
            httponly=True,
            samesite="strict",
            secure=self._access.scheme == "https",
        )
        return answer

    def sign_out(self, request: Request) -> Response:
        self._access.sign_out(request)
        answer = HTMLResponse(write_page("signed_out"))
        secure = self._access.scheme == "https"
        answer.delete_cookie(self._access.cookie, httponly=True, samesite="strict", secure=secure)
        return answer

    def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _TYPES:
            return Response("there is no such file\n", 404)
        content = (files(__package__ or "") / "static" / name).read_bytes()
        return Response(content, media_type=_TYPES[name], headers={"cache-control": "max-age=300"})

    # Approvals

    def approvals(self, request: Request) -> Response:
        return self.page(
            request,
            "approvals",
            "/approvals",
            inbox=inbox.inbox(self._sources, self._sessions, skip=_whole_number(request, "skip")),
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
        return self.page(
            request, "whole", "/approvals", approval_id=approval.id, about=about, whole=values.pieces(text)
        )

    def _one(
        self, request: Request, approval: Approval, message: Any, status: int = 200, note: str = ""
    ) -> Response:
        card = inbox.card_of(self._sources, self._sessions, approval)
        return self.page(
            request,
            "approval",
            "/approvals",
            status=status,
            card=card,
            headline=_HEADLINES[card.state],
            message=message,
            note=note,
        )

    # Runs

    def runs(self, request: Request) -> Response:
        reader = self._sources.reader
        only_open = request.query_params.get("open") == "1"
        skip = _whole_number(request, "skip")
        total, running = reader.count_runs(), reader.count_runs(open_only=True)
        now = self._sources.now()
        rows = []
        for run in reader.runs(limit=RUNS, skip=skip, open_only=only_open):
            asked = reader.asked_in(run)
            pending = [one for one in reader.approvals_of(run) if one.as_of(now) == "pending"]
            refused = asked.get("block", 0) + asked.get("halt", 0)
            by_contracts = reader.refused_by_contracts(run)
            judged = sum(asked.values()) + by_contracts
            rows.append(
                {"run": run, "waiting": bool(pending), "judged": judged, "refused": refused + by_contracts}
            )
        return self.page(
            request,
            "runs",
            "/runs",
            rows=rows,
            total=total,
            running=running,
            listed=running if only_open else total,
            only_open=only_open,
            skip=skip,
            RUNS=RUNS,
            database=reader.path,
        )

    def run(self, request: Request) -> Response:
        sources = self._sources
        run = sources.reader.run(request.path_params["id"])
        if run is None:
            return Response("there is no such run\n", 404)
        return self._told_of_run(request, run)

    def _told_of_run(
        self, request: Request, run: RunRow, message: Any = None, *, status: int = 200
    ) -> Response:
        sources = self._sources
        story = tell(sources, run)
        only = request.query_params.get("only") == "loud"
        steps = [step for step in story.judged if step.loud] if only else story.judged
        given = request.query_params.get("from")
        first = _whole_number(request, "from") if given is not None else max(0, len(steps) - STEPS)
        return self.page(
            request,
            "run",
            "/runs",
            status=status,
            run=run,
            story=story,
            title=_title(story.run.halted, story.run.open, story.ended, story.judged),
            steps=steps[first : first + STEPS],
            first=first,
            earlier=min(first, len(steps)),
            later=max(0, len(steps) - first - STEPS),
            only=only,
            STEPS=STEPS,
            loud=sum(step.loud for step in story.judged),
            refused=sum(step.stopped for step in story.judged),
            waiting_here=sum(step.waits for step in story.judged),
            logs=[log for log in sources.logs if log.name in story.logs],
            message=message,
            has_fleet=sources.fleet is not None,
        )

    def halt(self, request: Request) -> Response:
        run = self._sources.reader.run(request.path_params["id"])
        reason = request.state.form.get("reason", "").strip()
        if run is None:
            return Response("there is no such run\n", 404)
        if not reason:
            return Response("a halt needs a reason\n", 400)
        named = {"run": run.run_id, "session": run.session, "agent": run.agent}
        kind = request.state.form.get("of", "run")
        if not named.get(kind):
            return Response("the form names neither a run, nor a session, nor an agent\n", 400)
        try:
            self._sources.halt(kind, named[kind], reason)
        except FleetError as error:
            logger.error("a halt did not reach the store of the fleet: %s", type(error).__name__)
            return self._told_of_run(request, run, _HALTED_HERE, status=503)
        return RedirectResponse(f"/runs/{quote(run.run_id, safe='')}", 303)

    # What happens

    async def stream(self, request: Request) -> Response:
        given = request.headers.get("last-event-id", "")
        after = int(given) if given.isascii() and given.isdigit() and len(given) < 19 else None
        messages = self._pulse.messages(after, lambda: self._access.signed_in_until(request) is not None)
        return StreamingResponse(messages, media_type="text/event-stream")

    def page(self, request: Request, name: str, tab: str, *, status: int = 200, **more: Any) -> Response:
        """Write a page, with everything that all pages have."""
        sources = self._sources
        latest = sources.reader.latest_at()
        text = write_page(
            name,
            tab=tab,
            now=sources.now(),
            who=sources.who or "nobody in particular",
            where=self._where,
            waiting=sources.reader.count_pending(sources.now()),
            broken=any(not log.intact for log in sources.logs),
            last_event=latest,
            signed_in_until=self._access.signed_in_until(request) or 0.0,
            token=self._access.form_token(request),
            **more,
        )
        return HTMLResponse(text, status)


_CHANGED = (
    "wait",
    "alarm",
    "The arguments are not those that you saw",
    "They changed after this page was made. Nothing was decided. Look at them again below.",
    "",
)
_HALTED_HERE = (
    "bad",
    "alarm",
    "The store of the fleet was not told",
    "It is halted in every process with this Core. Whether others have heard of it is not known: try again.",
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


def _title(halted: str | None, is_open: bool, ended: str, steps: list[Step]) -> str:
    if halted is not None:
        return "The run was halted"
    refused = sum(step.stopped for step in steps)
    said = words.sentence(words.count(refused, "call was refused", "calls were refused")) if refused else ""
    if is_open:
        return f"{said}, and the run goes on" if said else "The run goes on"
    if said:
        return said
    return "The run failed" if ended.startswith("failed") else "Nothing was refused"


def _whole_number(request: Request, name: str) -> int:
    given = request.query_params.get(name, "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 12 else 0
