"""
MCP servers under contract.

`ACELMiddleware` gates the calls of a server of one's own; the command ``openbox-agentrt proxy`` one that
nobody can change.
"""

from .attach import attach
from .keys import ClientKey, KeyResolver, by_connection, by_principal
from .middleware import ACELMiddleware
from .sessions import SessionEnd

__all__ = (
    "ACELMiddleware",
    "ClientKey",
    "KeyResolver",
    "SessionEnd",
    "attach",
    "by_connection",
    "by_principal",
)
