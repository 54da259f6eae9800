"""
The console: how soon a call that waits is on a screen, and what it costs to look at much.

    python -m benchmarks console [--runs 10000] [--pending 1000] [--streams 100]

The first figure needs a Chromium and the package ``playwright``; without them it is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import httpx

from openbox_agentrt.console import Place, Sources, running_console
from openbox_agentrt.local_core import LocalCore

from .tables import Row, Table
from .timing import spread

_PAGES = ("/", "/approvals", "/runs", "/contracts", "/shadow", "/evidence")


def main(argv: Sequence[str]) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks console")
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--pending", type=int, default=1_000)
    parser.add_argument("--streams", type=int, default=100)
    given = parser.parse_args(list(argv))
    with tempfile.TemporaryDirectory() as folder:
        rows = [*_on_screen(Path(folder) / "small.sqlite3")]
        rows += _much(Path(folder) / "large.sqlite3", given.runs, given.pending)
        rows += _idle(Path(folder) / "idle.sqlite3", given.streams)
    table = Table(name="console", title="Console", columns=("case", "median", "p95", "asked"), rows=rows)
    print(table.to_text())
    return 0


@contextmanager
def _served(db: Path) -> Iterator[tuple[LocalCore, httpx.Client, str]]:
    links: list[str] = []
    with LocalCore(_policy, db) as core:
        sources = Sources.open(core, db, who="benchmark")
        with running_console(sources, Place(port=0), on_link=links.append):
            url = links[0].partition("/sign-in")[0]
            with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
                client.get(links[-1])
                yield core, client, links[-1]
        sources.close()


def _policy(event: dict[str, Any]) -> Any:
    return "REQUIRE_APPROVAL" if event.get("activity_type") == "refund" else None


def _ask(core: LocalCore, number: int) -> None:
    event = _event(f"run-{number}", "ActivityStarted", f"a-{number}", "refund")
    headers = {"authorization": f"Bearer {core.api_key}"}
    core.handle("POST", "/api/v1/governance/evaluate", headers, json.dumps(event).encode())


def _event(run: str, kind: str, activity: str = "", tool: str = "") -> dict[str, Any]:
    event: dict[str, Any] = {
        "source": "workflow-telemetry",
        "event_type": kind,
        "workflow_id": f"workflow-of-{run}",
        "run_id": run,
        "workflow_type": "refund-desk",
        "task_queue": "q",
        "session_id": run,
        "timestamp": "2027-02-11T03:01:18Z",
    }
    if activity:
        given = {"customer_id": "cus_3107", "order_id": "ord_88214", "amount": 312.4}
        event |= {"activity_id": activity, "activity_type": tool, "activity_input": [given]}
    return event


def _on_screen(db: Path) -> list[Row]:
    chromium = shutil.which("chromium")
    if chromium is None:
        return []
    from playwright.sync_api import expect, sync_playwright

    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with _served(db) as (core, client, link), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        page = browser.new_page()
        page.goto(link)
        page.wait_for_url("**/")
        page.goto(f"{client.base_url}/approvals")
        expect(page.locator("h1")).to_have_text("Nothing waits for you")
        # The page itself notes when a card comes: asking it over the wire takes longer than what is measured.
        page.evaluate(
            "() => { window.came = []; new MutationObserver(() => { const n ="
            " document.querySelectorAll('.ask').length; while (window.came.length < n)"
            " window.came.push(Date.now()); }).observe(document.getElementById('asks'), {childList: true}); }"
        )
        taken = []
        for number in range(8):
            began = time.time()
            _ask(core, number)
            expect(page.locator(".ask")).to_have_count(number + 1)
            taken.append(page.evaluate("() => window.came.at(-1)") - began * 1e3)
            time.sleep(0.3)
        browser.close()
    found = spread(taken)
    return [("asked to on-screen, ms", found.median, found.p95, "100")]


def _much(db: Path, runs: int, pending: int) -> list[Row]:
    LocalCore(path=db).close()
    _fill(db, runs, pending)
    rows: list[Row] = []
    with _served(db) as (_, client, _link):
        client.get("/")  # what is counted once is counted
        memory = []
        for path in _PAGES:
            taken, size = [], 0
            for _ in range(10):
                began = perf_counter()
                size = len(client.get(path).content)
                taken.append((perf_counter() - began) * 1e3)
            found = spread(taken)
            rows.append((f"{path} of {runs:,} runs, {pending:,} waiting, ms", found.median, found.p95, "200"))
            rows.append((f"{path}, kB", round(size / 1e3, 1), "", "60"))
        for _ in range(3):
            for _ in range(50):
                for path in _PAGES:
                    client.get(path)
            memory.append(_resident())
        rows.append(("memory after 300, 600, 900 pages, MB", str(memory), "", "flat"))
    return rows


def _fill(db: Path, runs: int, pending: int) -> None:
    now = time.time()
    kinds = ["WorkflowStarted", *["ActivityStarted", "ActivityCompleted"] * 4, "WorkflowCompleted"]
    with sqlite3.connect(db) as connection:
        for number in range(runs):
            run, ends = f"run-{number}", number >= pending
            rows = []
            for place, kind in enumerate(kinds[: None if ends else -2]):
                activity = f"a-{number}-{place // 2}" if kind.startswith("Activity") else ""
                event = _event(run, kind, activity, "lookup")
                rows.append(
                    (
                        now - 600 + 600 * number / runs,
                        event["workflow_id"],
                        run,
                        kind,
                        activity,
                        "lookup" if activity else "",
                        0,
                        f"{kind}:{activity}",
                        0,
                        json.dumps(event),
                        '{"verdict":"allow"}',
                    )
                )
            connection.executemany(
                "INSERT INTO events (received_at, workflow_id, run_id, event_type,"
                " activity_id, activity_type, hook, dedup_key, changed, payload, answer)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                rows,
            )
            if ends:
                connection.execute(
                    "INSERT INTO sessions VALUES (?, ?, 'WorkflowCompleted', NULL)",
                    (f"workflow-of-{run}", run),
                )
            else:
                event = _event(run, "ActivityStarted", f"a-{number}-4", "refund")
                connection.execute(
                    "INSERT INTO approvals (id, workflow_id, run_id, activity_id, activity_type,"
                    " reason, event, created_at, expires_at, state, note)"
                    " VALUES (?, ?, ?, ?, 'refund', 'over 100', ?, ?, ?,"
                    " 'pending', '')",
                    (
                        f"p-{number}",
                        event["workflow_id"],
                        run,
                        event["activity_id"],
                        json.dumps(event),
                        now,
                        now + 3600,
                    ),
                )
    connection.close()


def _idle(db: Path, streams: int) -> list[Row]:
    with _served(db) as (_, client, _link):
        ready = threading.Barrier(streams + 1)
        over = threading.Event()

        def look() -> None:
            with client.stream("GET", "/stream", timeout=60) as answer:
                next(answer.iter_lines())
                ready.wait(60)
                over.wait(60)

        limits = httpx.Limits(max_connections=streams + 10)
        with httpx.Client(
            base_url=client.base_url, cookies=client.cookies, trust_env=False, limits=limits
        ) as client:
            threads = [threading.Thread(target=look) for _ in range(streams)]
            for thread in threads:
                thread.start()
            ready.wait(60)
            time.sleep(1)
            spent, began = time.process_time(), perf_counter()
            time.sleep(8)
            share = (time.process_time() - spent) / (perf_counter() - began)
            over.set()
            for thread in threads:
                thread.join()
    return [(f"{streams} open streams, idle, % of a core", round(100 * share, 2), "", "2")]


def _resident() -> float:
    with open(f"/proc/{os.getpid()}/statm", encoding="ascii") as file:
        return round(int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)
