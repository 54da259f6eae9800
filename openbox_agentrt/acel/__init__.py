"""
Contracts over the tool calls of a session.

    from openbox_agentrt.acel import Session, must_precede

    session = Session(contracts=[must_precede("validate_record", "delete_record")])
    session.call("delete_record", {"id": "r_42"})     # raises ContractViolation

Nothing is loaded until it is used. What a contract says is in `contracts`, which calls it means in `match`,
what it remembers in `memory`, who asks it in `engine`; `session` and `reservation` are what users hold.

`adapters`, `cli`, `conditions`, `config`, `evidence`, `hooks`, `matchers`, `mcp_middleware`, `registry`,
`state` and `temporal` are acel-core's names, for programs that move here: the code stands elsewhere.
"""

from __future__ import annotations

from .._lazy import lazy_names
from .._version import __version__ as __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .condition.fact import Fact as Fact
    from .condition.fact import fact as fact
    from .contracts.base import TemporalContract as TemporalContract
    from .contracts.conditions import Check as Check
    from .contracts.conditions import postcondition as postcondition
    from .contracts.conditions import precondition as precondition
    from .contracts.counting import at_most_in_flight as at_most_in_flight
    from .contracts.counting import at_most_n_times as at_most_n_times
    from .contracts.counting import at_most_total as at_most_total
    from .contracts.counting import max_distinct as max_distinct
    from .contracts.counting import rate_limit as rate_limit
    from .contracts.exclusion import mutually_exclusive as mutually_exclusive
    from .contracts.exclusion import never as never
    from .contracts.exclusion import never_after as never_after
    from .contracts.exclusion import only as only
    from .contracts.identity import rules_hash as rules_hash
    from .contracts.obligations import existence as existence
    from .contracts.obligations import required_before_session_end as required_before_session_end
    from .contracts.obligations import response as response
    from .contracts.precedence import alternate_precedence as alternate_precedence
    from .contracts.precedence import cannot_follow_without as cannot_follow_without
    from .contracts.precedence import chain_precedence as chain_precedence
    from .contracts.precedence import init as init
    from .contracts.precedence import must_precede as must_precede
    from .contracts.provenance import came_from as came_from
    from .contracts.provenance import keeps_out as keeps_out
    from .contracts.requires import requires as requires
    from .contracts.spec import build_contract as build_contract
    from .contracts.state import requires_state as requires_state
    from .contracts.tools import ToolSpec as ToolSpec
    from .engine.snapshot.snapshot import SnapshotError as SnapshotError
    from .events import ToolCallEvent as ToolCallEvent
    from .events import TraceError as TraceError
    from .evidence import EvidenceBundle as EvidenceBundle
    from .evidence import EvidenceLog as EvidenceLog
    from .evidence import ed25519_signer as ed25519_signer
    from .evidence import redact_violation as redact_violation
    from .gate import Gate as Gate
    from .match.matchers import ContentMatch as ContentMatch
    from .match.matchers import any_of as any_of
    from .match.matchers import matching as matching
    from .match.matchers import not_matching as not_matching
    from .match.odd_names import suspicious_names as suspicious_names
    from .match.patterns import PatternError as PatternError
    from .memory.state import StateStore as StateStore
    from .memory.state import StateView as StateView
    from .metrics import Metrics as Metrics
    from .metrics import serve_metrics_http as serve_metrics_http
    from .refusal import Broken as Broken
    from .refusal import Refusal as Refusal
    from .reservation import Reservation as Reservation
    from .reservation import ReservationError as ReservationError
    from .session import Session as Session
    from .verdict import Verdict as Verdict
    from .violations import ContractViolation as ContractViolation
    from .violations import Violation as Violation

_MODULES = {
    "contracts.conditions": ("Check", "postcondition", "precondition"),
    "contracts.base": ("TemporalContract",),
    "contracts.counting": (
        "at_most_in_flight",
        "at_most_n_times",
        "at_most_total",
        "max_distinct",
        "rate_limit",
    ),
    "contracts.exclusion": ("mutually_exclusive", "never", "never_after", "only"),
    "contracts.obligations": ("existence", "required_before_session_end", "response"),
    "contracts.precedence": (
        "alternate_precedence",
        "cannot_follow_without",
        "chain_precedence",
        "init",
        "must_precede",
    ),
    "contracts.provenance": ("came_from", "keeps_out"),
    "condition.fact": ("Fact", "fact"),
    "contracts.requires": ("requires",),
    "contracts.state": ("requires_state",),
    "events": ("ToolCallEvent", "TraceError"),
    "evidence": ("EvidenceBundle", "EvidenceLog", "ed25519_signer", "redact_violation"),
    "gate": ("Gate",),
    "match.matchers": ("ContentMatch", "any_of", "matching", "not_matching"),
    "match.patterns": ("PatternError",),
    "metrics": ("Metrics", "serve_metrics_http"),
    "match.odd_names": ("suspicious_names",),
    "refusal": ("Broken", "Refusal"),
    "contracts.identity": ("rules_hash",),
    "contracts.spec": ("build_contract",),
    "reservation": ("Reservation", "ReservationError"),
    "session": ("Session",),
    "engine.snapshot.snapshot": ("SnapshotError",),
    "memory.state": ("StateStore", "StateView"),
    "contracts.tools": ("ToolSpec",),
    "verdict": ("Verdict",),
    "violations": ("ContractViolation", "Violation"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = tuple(sorted(["__version__", *_HOME]))

__getattr__, __dir__ = lazy_names(globals(), _HOME)
