"""
A refund service as one runs it for a company: several workers, one budget, one place to decide, one log each.

Everything it needs to know is in variables:

* ``OPENBOX_URL`` and ``OPENBOX_API_KEY``: your OpenBox Core. Without them a Core in each worker, on one file.
* ``OPENBOX_AGENTRT_FLEET``: where budgets count; ``redis://...`` for many machines.
* ``DATA``: a folder for what has to stay: evidence, its key, the local Core's file.
* ``RULES``: the rules file, which may change while the workers run.

``GET /health`` is for whoever restarts workers, ``GET /metrics`` for Prometheus.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel

from openbox_agentrt import GovernanceError, OpenBoxAgentRTGovernance, create_openbox_agentrt
from openbox_agentrt.acel import Metrics
from openbox_agentrt.local_core import LocalCore

HERE = Path(__file__).parent
DATA = Path(os.environ.get("DATA", "data"))
RULES = Path(os.environ.get("RULES", HERE / "rules.yaml"))
DATA.mkdir(parents=True, exist_ok=True)


class Refund(BaseModel):
    """What a customer is to get back."""

    amount: float


def options(metrics: Metrics) -> dict[str, Any]:
    """Say how this worker is governed. A log has one writer, so each worker has one of its own."""
    core = {} if "OPENBOX_URL" in os.environ else {"core": local_core()}
    return {
        **core,
        "contracts": RULES,
        "reload_rules": True,
        "fleet": os.environ.get("OPENBOX_AGENTRT_FLEET", f"sqlite:///{DATA}/fleet.db"),
        "evidence": DATA / "evidence" / f"{os.uname().nodename}-{os.getpid()}.jsonl",
        "record": "steps",
        "signer": DATA / "evidence.key",
        "metrics": metrics,
    }


def local_core() -> LocalCore:
    """Make a Core that shares its file with those of the other workers, and with the console."""
    return LocalCore(HERE / "policy.rego", DATA / "core.sqlite3")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Make one governance for each worker; closing it tells Core what it does not know yet."""
    app.state.metrics = Metrics()
    async with await create_openbox_agentrt(**options(app.state.metrics)) as governance:
        app.state.governance = governance
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/customers/{customer}/refunds")
async def refund(customer: str, wanted: Refund, request: Request) -> dict[str, float]:
    """Pay a refund. Whose it is says the path, which no model writes."""
    governance: OpenBoxAgentRTGovernance = request.app.state.governance
    async with governance.run_scope(subject={"customer": customer}):
        async with governance.activity("look_up", {"customer": customer}):
            pass  # here the order is read
        async with governance.activity("refund", {"amount": wanted.amount}):
            pay(customer, wanted.amount)
    return {"paid": wanted.amount}


@app.exception_handler(GovernanceError)
async def refused(request: Request, error: GovernanceError) -> JSONResponse:
    """Say why in one line: 503 where somebody could not be asked, 409 where the answer is no."""
    decision = error.decision
    unavailable = decision is not None and (decision.unreachable or decision.fleet == "unavailable")
    return JSONResponse({"refused": str(error)}, status_code=503 if unavailable else 409)


@app.get("/health")
async def health(request: Request) -> dict[str, Any]:
    """Say which worker this is, and by which rules it judges."""
    governance: OpenBoxAgentRTGovernance = request.app.state.governance
    return {"worker": os.getpid(), "rules": governance.rules_hash, "counts": dict(governance.counts)}


@app.get("/metrics")
async def metrics(request: Request) -> PlainTextResponse:
    """Give the numbers of this worker in Prometheus text."""
    numbers: Metrics = request.app.state.metrics
    return PlainTextResponse(numbers.render_prometheus())


def pay(customer: str, amount: float) -> None:
    """Stand for the bank: one line for each payment, in the order in which they were made."""
    with (DATA / "payments.csv").open("a", encoding="utf-8") as ledger:
        ledger.write(f"{customer},{amount},{os.getpid()}\n")
