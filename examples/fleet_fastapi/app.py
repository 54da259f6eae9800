"""
A web service whose workers share one budget for each customer.

    pip install . fastapi uvicorn                    # in a clone of the repository, in one go
    cd examples/fleet_fastapi && uvicorn app:app --workers 4
    curl -X POST localhost:8000/customers/c-7/refunds -H "content-type: application/json" -d '{"amount": 100}'

The sixth refund of 100 is refused, in whichever of the four workers it arrives, and also after a restart. So
is a change of address in a conversation in which nobody was verified. Once somebody was, it passes in every
worker, also after a restart in the middle of the conversation:

    curl -X POST localhost:8000/conversations/1/address    # 409
    curl -X POST localhost:8000/conversations/1/verify
    curl -X POST localhost:8000/conversations/1/address

The workers of one machine share a file. For many machines, only the URL changes (and
`pip install '.[redis]'`):

    OPENBOX_AGENTRT_FLEET=redis://redis.internal/0 uvicorn app:app --workers 4
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from openbox_agentrt import ContractRefusedError, OpenBoxAgentRTGovernance, create_openbox_agentrt

RULES = Path(__file__).parent / "rules.yaml"


class Refund(BaseModel):
    """What a customer is to get back."""

    amount: float


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Make one governance for each worker. They meet in the store."""
    fleet = os.environ.get("OPENBOX_AGENTRT_FLEET", "sqlite:///fleet.db")
    made = create_openbox_agentrt(core="off", contracts=RULES, fleet=fleet, sessions="durable")
    async with await made as governance:
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


@app.post("/conversations/{conversation}/verify")
async def verify(conversation: str, request: Request) -> dict[str, bool]:
    """Remember that the customer of this conversation is who they say."""
    governance: OpenBoxAgentRTGovernance = request.app.state.governance
    async with governance.run_scope(session_id=conversation), governance.activity("verify"):
        pass  # here a code is sent and compared
    return {"verified": True}


@app.post("/conversations/{conversation}/address")
async def change_address(conversation: str, request: Request) -> dict[str, bool]:
    """Change the address of a customer who was verified in this conversation."""
    governance: OpenBoxAgentRTGovernance = request.app.state.governance
    async with governance.run_scope(session_id=conversation), governance.activity("change_address"):
        pass  # here it is written down
    return {"changed": True}


@app.exception_handler(ContractRefusedError)
async def refused(request: Request, error: ContractRefusedError) -> JSONResponse:
    """Say why, and when to come back: 409 for a used-up budget, 503 while nobody can say, or all wait."""
    by = error.decision
    unavailable = by is not None and (by.fleet == "unavailable" or by.source == "session")
    waits = [broken.retry_after for broken in error.refusal.broken if broken.retry_after is not None]
    headers = {"retry-after": str(max(1, round(max(waits))))} if waits else {}
    body = {"refused": error.refusal.message}
    return JSONResponse(body, status_code=503 if unavailable else 409, headers=headers)


@app.get("/health")
async def health() -> dict[str, int]:
    """Name the worker that answers."""
    return {"worker": os.getpid()}


def pay(customer: str, amount: float) -> None:
    """Stand for the bank: one line for each payment, in the order in which they were made."""
    with open("payments.csv", "a", encoding="utf-8") as ledger:
        ledger.write(f"{customer},{amount},{os.getpid()}\n")
