"""Pages that report: the overview, contracts, shadow mode, evidence. Nothing here decides anything."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from .._plain.strict_json import JsonError, read_json
from ..acel.refusal import Broken, Refusal
from .evidence_view import LogView, first_of, lines_of, pages_of
from .overview import Hour, overview
from .rendering import WritesPages
from .sessions import KnownSession, LiveSessions, StateRow, near_limits, rows_of
from .shadow import Shadow
from .sources import Sources
from .steps import Unblock

ROWS = 60
_NEAR = 5
_CLOSE = 80.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """
    Tell what a dry run has said.

    Attributes:
        refusal: Why the call would be refused; None if it would not be.
        problem: Why nothing was asked.
        about: How many contracts the call concerns.
        took: Seconds.
    """

    refusal: Refusal | None = None
    problem: str = ""
    about: int = 0
    took: float = 0.0


class Reports:
    """Answer requests for pages that report. Its methods run in threads of their own."""

    def __init__(self, sources: Sources, site: WritesPages, sessions: LiveSessions) -> None:
        self._sources = sources
        self._site = site
        self._hour = Hour(sources.reader)
        self._shadow = Shadow(sources)
        self.sessions = sessions

    def overview_summary(self) -> dict[str, Any]:
        """Give what the first page says."""
        seen = overview(self._sources, self._hour)
        return {
            "alarms": seen.alarms,
            "broken": [log.name for log in seen.broken],
            "ungoverned": seen.ungoverned,
            "waiting": seen.waiting,
            "asked": seen.asked,
            "verdicts": seen.verdicts,
            "since": seen.since,
            "until": seen.until,
            "running": seen.running,
            "doing": seen.doing,
            "near_limits": near_limits(self.sessions, most=_NEAR),
            "refused": seen.refused,
        }

    def overview(self, request: Request) -> Response:
        sources = self._sources
        seen = overview(sources, self._hour)
        return self._site.page(
            request,
            "overview",
            "/",
            seen=seen,
            broken_logs=[LogView(log) for log in seen.broken],
            near=near_limits(self.sessions, most=_NEAR),
            can_tell=self.sessions.tells,
            began=sources.began,
            database=sources.reader.path,
            rules_file=sources.rules_file,
            contracts=0 if sources.rules is None else len(sources.rules.contracts),
            fleet=None if sources.fleet is None else sources.fleet.view(),
            logs=sources.logs,
        )

    def contracts(self, request: Request) -> Response:
        return self._contracts(request, {"session": "", "tool": "", "args": "{}"}, None)

    def would(self, request: Request) -> Response:
        form: Mapping[str, str] = request.state.form
        asked = {name: form.get(name, "") for name in ("session", "tool", "args")}
        return self._contracts(request, asked, self.dry_run(asked))

    def dry_run(self, asked: Mapping[str, str]) -> DryRun:
        """Ask what a call would be refused for."""
        known = self.sessions.called(asked["session"])
        if known is None or known.store is None:
            return DryRun(problem="there is no such session any more")
        if not asked["tool"]:
            return DryRun(problem="a tool is needed")
        try:
            args = read_json(asked["args"] or "{}")
        except JsonError as error:
            return DryRun(problem=f"the arguments are not JSON: {error.reason}")
        if not isinstance(args, dict):
            return DryRun(problem="the arguments have to be a JSON object")
        began = time.perf_counter()
        refusal = known.would(asked["tool"], args)
        took = time.perf_counter() - began
        return DryRun(refusal=refusal, about=known.about(asked["tool"]), took=took)

    def states(self) -> list[StateRow]:
        """List how contracts stand in all open sessions, what is closest to its limit first."""
        known = [one for one in self.sessions.open() if one.store is not None]
        fresh = self.sessions.new()
        if not known and fresh is not None:
            known = [fresh]  # how every session begins
        rows = [row for one in known for row in rows_of(self._sources, one)]
        return sorted(rows, key=lambda row: -row.closeness)

    def _contracts(self, request: Request, asked: Mapping[str, str], answer: DryRun | None) -> Response:
        sources = self._sources
        open_ = self.sessions.open()
        rows = self.states()
        return self._site.page(
            request,
            "contracts",
            "/contracts",
            asked=asked,
            answer=answer,
            unblock=_unblock,
            choices=_choices(open_, has_rules=sources.rules is not None),
            sessions=open_,
            rows=rows,
            ROWS=ROWS,
            refusing=len({row.rule for row in rows if row.refuses.startswith("what") and row.session}),
            close=len({row.rule for row in rows if (row.share or 0) >= _CLOSE and row.refuses == "nothing"}),
            tells=self.sessions.tells,
            rules_file=sources.rules_file,
            contracts=() if sources.rules is None else sources.rules.contracts,
            logs=sources.logs,
            fleet=None if sources.fleet is None else sources.fleet.view(),
        )

    def shadow(self, request: Request) -> Response:
        logs = self._sources.logs
        return self._site.page(
            request,
            "shadow",
            "/shadow",
            report=self._shadow.report(),
            logs=logs,
            intact=all(log.intact for log in logs),
        )

    def shadow_summary(self) -> dict[str, Any]:
        """Give the summary that ``openbox-agentrt report --json`` gives."""
        return self._shadow.report().summary.to_dict()

    def evidence(self, request: Request) -> Response:
        logs = [LogView(log) for log in self._sources.logs]
        wanted = request.query_params.get("file")
        broken = next((view for view in logs if not view.intact), None)
        chosen = next((view for view in logs if view.name == wanted), broken or (logs[0] if logs else None))
        start = 0 if chosen is None else first_of(chosen, request.query_params.get("from"))
        report = None if chosen is None else chosen.report
        return self._site.page(
            request,
            "evidence",
            "/evidence",
            log=chosen,
            logs=logs,
            lines=[] if chosen is None else lines_of(self._sources, chosen, start),
            pages=[] if chosen is None else pages_of(chosen, start),
            notes=[] if report is None else [note for note in report.notes if "no key" not in note],
        )


def _choices(known: list[KnownSession], *, has_rules: bool) -> list[tuple[str, str]]:
    choices = [(one.run, f"{one.name}, {one.log}") for one in known if one.store is not None]
    return [*choices, ("new", "a new session")] if has_rules else choices


def _unblock(broken: Broken) -> Unblock:
    return Unblock(
        contract=broken.name,
        id=broken.id or "",
        needs=broken.needs or "",
        remaining=broken.remaining or "",
        retry_after=broken.retry_after,
        remedy=broken.remedy or "",
    )
