"""A governed agent and a Core over HTTP: what it costs, beside the bare agent and the bare requests."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any, Final

import aiohttp
import httpx

from openbox_agentrt import create_openbox_agentrt

from .agents import Shape
from .canned_core import canned_core
from .tables import Row, Table

SIDE_BY_SIDE: Final = 50
QUESTION: Final = (
    b'{"source":"workflow-telemetry","event_type":"ActivityStarted","workflow_id":"agentrt-0123456789abcdef",'
    b'"run_id":"agentrt-run-0123456789abcdef","workflow_type":"calculator","task_queue":"agentrt",'
    b'"activity_id":"0123456789abcdef0123456789abcdef","activity_type":"add","activity_input":[{"a":1,"b":2}],'
    b'"timestamp":"2026-01-02T03:04:05.678Z"}'
)
HEADERS: Final = {
    "Content-Type": "application/json",
    "Authorization": "Bearer obx_test_bench",
    "X-OpenBox-SDK-Version": "openbox-agentrt-python-v0.0.0",
}

Run = Callable[[], Awaitable[Any]]


def measure(quick: bool) -> Table:
    """One agent after the other and many side by side, over HTTP and HTTPS, unsigned and signed."""
    rows: list[Row] = []
    for scheme in ("HTTP", "HTTPS"):
        with _core(scheme) as url:
            rows += asyncio.run(_measured(scheme, url, quick))
    return Table(
        name="over-http",
        title="Governed runs over HTTP",
        columns=("case", "who", "CPU us an activity", "times two bare requests", "times the bare loop"),
        rows=rows,
        notes=(
            "The least processor time of the agent's process; the Core is in another. Two bare requests are"
            " two posts of aiohttp, which an activity needs at the least. Governed rows are what governance"
            " adds to the bare loop, with the three further requests of a run. Signed: each request is, with"
            " a key of the agent's own."
        ),
    )


async def _measured(scheme: str, url: str, quick: bool) -> list[Row]:
    rows: list[Row] = []
    plain: dict[str, Any] = {"install_instrumentation": False, "validate": False, "environ": {}}
    asked: dict[str, Any] = {
        "api_url": url,
        "api_key": "obx_test_bench",
        "on_api_error": "fail_closed",
        **plain,
    }
    governed = await create_openbox_agentrt(**asked)
    signed = await create_openbox_agentrt(**asked, **_identity())
    async with governed, signed, _session() as session:
        for case, shape, at_once in (
            ("one at a time", Shape(name="", calls=2 if quick else 100), 1),
            (f"{SIDE_BY_SIDE} side by side", Shape(name="", calls=1 if quick else 10), SIDE_BY_SIDE),
        ):
            runs: dict[str, Run] = {
                "bare loop": shape.run,
                "two bare requests": partial(_bare, session, url, 2 * shape.activities),
                "governed": partial(shape.run, governed.govern_loop),
                "governed, signed": partial(shape.run, signed.govern_loop),
            }
            used = await _used(runs, at_once, rounds=1 if quick else 12)
            each = {name: seconds / at_once / shape.activities * 1e6 for name, seconds in used.items()}
            rows += _rows(f"{scheme}, {case}", each)
    return rows


def _rows(case: str, each: dict[str, float]) -> list[Row]:
    loop, requests = each["bare loop"], each["two bare requests"]
    added = {name: us - loop if name.startswith("governed") else us for name, us in each.items()}
    return [(case, name, us, us / requests, us / loop) for name, us in added.items()]


def _session() -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(limit=0, ssl=httpx.create_ssl_context())
    return aiohttp.ClientSession(headers=HEADERS, connector=connector)


async def _bare(session: aiohttp.ClientSession, url: str, requests: int) -> None:
    for _ in range(requests):
        async with session.post(f"{url}/api/v1/governance/evaluate", data=QUESTION) as answer:
            await answer.read()


async def _used(runs: dict[str, Run], at_once: int, *, rounds: int) -> dict[str, float]:
    used: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, run in runs.items():
            began = process_time()
            await asyncio.gather(*(run() for _ in range(at_once)))
            if number:  # the first is to warm up
                used[name].append(process_time() - began)
    return {name: min(samples) for name, samples in used.items()}


@contextmanager
def _core(scheme: str) -> Iterator[str]:
    if scheme == "HTTP":
        with canned_core() as port:
            yield f"http://127.0.0.1:{port}"
        return
    import trustme

    authority = trustme.CA()
    with TemporaryDirectory() as folder:
        certificate, trusted = Path(folder, "server.pem"), Path(folder, "ca.pem")
        authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(certificate))
        authority.cert_pem.write_to_path(str(trusted))
        with _trusting(trusted), canned_core(str(certificate)) as port:
            yield f"https://localhost:{port}"


@contextmanager
def _trusting(authority: Path) -> Iterator[None]:
    before = os.environ.get("SSL_CERT_FILE")
    os.environ["SSL_CERT_FILE"] = str(authority)
    try:
        yield
    finally:
        del os.environ["SSL_CERT_FILE"]
        if before is not None:
            os.environ["SSL_CERT_FILE"] = before


def _identity() -> dict[str, Any]:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = base64.b64encode(Ed25519PrivateKey.generate().private_bytes_raw()).decode()
    return {"agent_did": "did:aip:6ba7b810-9dad-41d1-80b4-00c04fd430c8", "agent_private_key": key}
