"""
Contracts over the tool calls of a session.

    from openbox_agentrt.acel import Session, must_precede

    session = Session(contracts=[must_precede("validate_record", "delete_record")])
    session.call("delete_record", {"id": "r_42"})     # raises ContractViolation

Nothing is loaded until it is used. The modules have the names that acel-core gives them.
"""

from __future__ import annotations

from .._lazy import lazy_names
from .._version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .condition.fact import Fact, fact
    from .contracts.base import TemporalContract
    from .contracts.conditions import Check, postcondition, precondition
    from .contracts.counting import (
        at_most_in_flight,
        at_most_n_times,
        at_most_total,
        max_distinct,
        rate_limit,
    )
    from .contracts.exclusion import mutually_exclusive, never, never_after, only
    from .contracts.identity import rules_hash
    from .contracts.obligations import existence, required_before_session_end, response
    from .contracts.precedence import (
        alternate_precedence,
        cannot_follow_without,
        chain_precedence,
        init,
        must_precede,
    )
    from .contracts.provenance import came_from, keeps_out
    from .contracts.requires import requires
    from .contracts.spec import build_contract
    from .contracts.state import requires_state
    from .contracts.tools import ToolSpec
    from .engine.snapshot import SnapshotError
    from .events import ToolCallEvent, TraceError
    from .evidence import EvidenceBundle, EvidenceLog, ed25519_signer, redact_violation
    from .gate import Gate
    from .match.matchers import ContentMatch, any_of, matching, not_matching
    from .match.names import suspicious_names
    from .match.patterns import PatternError
    from .memory.state import StateStore, StateView
    from .refusal import Broken, Refusal
    from .reservation import Reservation, ReservationError
    from .session import Session
    from .verdict import Verdict
    from .violations import ContractViolation, Violation

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
    "match.names": ("suspicious_names",),
    "refusal": ("Broken", "Refusal"),
    "contracts.identity": ("rules_hash",),
    "contracts.spec": ("build_contract",),
    "reservation": ("Reservation", "ReservationError"),
    "session": ("Session",),
    "engine.snapshot": ("SnapshotError",),
    "memory.state": ("StateStore", "StateView"),
    "contracts.tools": ("ToolSpec",),
    "verdict": ("Verdict",),
    "violations": ("ContractViolation", "Violation"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = (
    "Broken",
    "Check",
    "ContentMatch",
    "ContractViolation",
    "EvidenceBundle",
    "EvidenceLog",
    "Fact",
    "Gate",
    "Metrics",
    "PatternError",
    "Refusal",
    "Reservation",
    "ReservationError",
    "Session",
    "SnapshotError",
    "StateStore",
    "StateView",
    "TemporalContract",
    "ToolCallEvent",
    "ToolSpec",
    "TraceError",
    "Verdict",
    "Violation",
    "__version__",
    "alternate_precedence",
    "any_of",
    "at_most_in_flight",
    "at_most_n_times",
    "at_most_total",
    "build_contract",
    "came_from",
    "cannot_follow_without",
    "chain_precedence",
    "ed25519_signer",
    "existence",
    "fact",
    "init",
    "keeps_out",
    "matching",
    "max_distinct",
    "must_precede",
    "mutually_exclusive",
    "never",
    "never_after",
    "not_matching",
    "only",
    "postcondition",
    "precondition",
    "rate_limit",
    "redact_violation",
    "required_before_session_end",
    "requires",
    "requires_state",
    "response",
    "rules_hash",
    "serve_metrics_http",
    "suspicious_names",
)

__getattr__, __dir__ = lazy_names(globals(), _HOME)
