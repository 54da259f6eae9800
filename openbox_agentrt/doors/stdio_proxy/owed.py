"""An answer that the server owes, and what the client gets in its place."""

import json
from dataclasses import dataclass
from typing import Any

from ...acel import Reservation
from ..mcp.calls import CALL
from ..mcp.refusal import HALT, halted

PARSE_ERROR, INVALID_REQUEST, INTERNAL_ERROR = -32700, -32600, -32603


@dataclass(slots=True, eq=False)
class Owed:
    """
    Hold what is known of a request that the server has not answered yet.

    Attributes:
        method: Its method.
        id: Its id, as the client wrote it.
        modern: Whether the client speaks the current protocol revision.
        gated: Whether it is a call.
        reservation: The call, if it was let through.
    """

    method: str
    id: Any
    modern: bool = False
    gated: bool = False
    reservation: Reservation | None = None

    def answer(self, text: str, data: dict[str, Any]) -> dict[str, Any]:
        """Give the part of an answer that says why there is no result."""
        if self.method != CALL:
            # Only a tool's result can say that it is an error.
            return error_of(INVALID_REQUEST, text, data)
        result = halted(text, data)
        if self.modern:
            result["resultType"] = "complete"
        return {"result": result}


def error_of(code: int, text: str, data: dict[str, Any] | None = None) -> dict[str, Any]:
    """Give the part of an answer that is an error of the protocol."""
    error: dict[str, Any] = {"code": code, "message": f"{HALT}{text}"}
    if data is not None:
        error["data"] = data
    return {"error": error}


def line_of(body: object) -> bytes:
    """Write a message as one line."""
    return json.dumps(body, separators=(",", ":")).encode() + b"\n"
