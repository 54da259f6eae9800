"""
An OpenBox Core that runs inside the process, for development, tests and machines without a network.

`LocalCore` answers the wire of OpenBox Core and judges with a Rego file or a callable. It stands alone: any
OpenBox SDK can talk to it over HTTP. Its policy language needs the extra ``local``, and so does the server.
"""

from .._halt import Halt
from .approvals import Approval, UndecidableApprovalError
from .core import DEFAULT_API_KEY, CoreClosedError, LocalCore
from .database import StoreError
from .judge import PolicyCounts
from .ledger import OpenWorkflow, Orphan
from .records import Record, RefusedRequest
from .rego.source import PolicyError
from .server import NotLoopbackError, asgi_app, running, serve

__all__ = (
    "DEFAULT_API_KEY",
    "Approval",
    "CoreClosedError",
    "Halt",
    "LocalCore",
    "NotLoopbackError",
    "OpenWorkflow",
    "Orphan",
    "PolicyCounts",
    "PolicyError",
    "Record",
    "RefusedRequest",
    "StoreError",
    "UndecidableApprovalError",
    "asgi_app",
    "running",
    "serve",
)
