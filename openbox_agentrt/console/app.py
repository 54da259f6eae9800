"""The console as an application: which address shows what, and what a form does."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from .access import SIGNED_IN_SECONDS, Access, AccessGuard
from .api import api_routes
from .approving import Approvals
from .rendering import write_page
from .reporting import Reports
from .run_pages import RunPages
from .sessions import LiveSessions
from .sources import Sources
from .stream import Pulse
from .words import whole_number

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
    site = _Site(sources, access, where)
    approvals, runs = Approvals(sources, site, sessions), RunPages(sources, site)
    reports = Reports(sources, site, sessions)
    routes = [
        Route("/sign-in", site.sign_in),
        Route("/sign-out", site.sign_out, methods=["POST"]),
        Route("/static/{name}", site.static),
        Route("/", reports.overview),
        Route("/approvals", approvals.approvals),
        Route("/approvals/{id}", approvals.approval),
        Route("/approvals/{id}", approvals.decide, methods=["POST"]),
        Route("/approvals/{id}/values/{index:int}", approvals.whole),
        Route("/runs", runs.runs),
        # Whoever writes its own SDK names its runs, also with slashes: each can be seen and halted.
        Route("/runs/{id:path}/halt", runs.halt, methods=["POST"]),
        Route("/runs/{id:path}", runs.run),
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

    def __init__(self, sources: Sources, access: Access, where: str) -> None:
        self._sources = sources
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

    # What happens

    async def stream(self, request: Request) -> Response:
        after = whole_number(request.headers.get("last-event-id"), otherwise=None)
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
