"""
The options, each declared once, in the groups in which they have to fit together.

A field gives an option its name, type and default, and `holds` the kind of value that is read and checked. A
group whose options can contradict each other refuses that in its `_check`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from .._errors.options import OptionError
from . import kinds
from .declared import holds

if TYPE_CHECKING:
    import os

    from openbox_core.runtime import OpenBoxRuntime

    from ..acel.contracts.base import TemporalContract
    from ..acel.engine.fleet.fleet_gate import FleetStore
    from ..acel.engine.record.records import Meter, ViolationRecorder
    from ..acel.outcome import OutcomeHook
    from ..acel.session import Session
    from ..decision import ApprovalRequest, Decision
    from .in_process import InProcessCore


@dataclass(frozen=True, kw_only=True)
class CoreOptions:
    """Say which Core is asked, and as whom."""

    api_url: str | None = field(
        # Secret, because a mistyped one may hold a password.
        default=None,
        metadata=holds(kinds.URL, is_base=True, is_secret=True, variables=("API_URL", "URL")),
    )
    api_key: str | None = field(
        default=None, repr=False, metadata=holds(kinds.API_KEY, is_base=True, is_secret=True)
    )
    agent_name: str | None = field(default=None, metadata=holds(kinds.TEXT, is_base=True))
    agent_did: str | None = field(default=None, metadata=holds(kinds.TEXT, is_base=True))
    agent_private_key: str | None = field(
        default=None, repr=False, metadata=holds(kinds.SECRET, is_base=True, is_secret=True)
    )
    workload_private_key: str | None = field(
        default=None, repr=False, metadata=holds(kinds.SECRET, is_base=True, is_secret=True)
    )
    identity_method: Literal["openbox_did", "okta_ai_agent"] | None = field(
        default=None,
        metadata=holds(
            kinds.choice("openbox_did", "okta_ai_agent"), is_base=True, variables=("AGENT_IDENTITY_METHOD",)
        ),
    )
    okta_agent_id: str | None = field(default=None, metadata=holds(kinds.TEXT, is_base=True))
    okta_agent_key_id: str | None = field(default=None, metadata=holds(kinds.TEXT, is_base=True))
    okta_agent_private_key: str | None = field(
        default=None, repr=False, metadata=holds(kinds.SECRET, is_base=True, is_secret=True)
    )
    okta_agent_algorithm: str | None = field(default=None, metadata=holds(kinds.TEXT, is_base=True))
    openbox_agent_id: str | None = field(
        default=None, metadata=holds(kinds.TEXT, is_base=True, variables=("AGENT_ID",))
    )
    organization_id: str | None = field(default=None, metadata=holds(kinds.TEXT, is_base=True))
    deployment_id: str | None = field(default=None, metadata=holds(kinds.TEXT, is_base=True))
    agent_proof_audience: str | None = field(default=None, metadata=holds(kinds.TEXT, is_base=True))
    core: InProcessCore | Literal["local", "off"] | None = field(
        default=None, metadata=holds(kinds.CORE, own_prefix_only=True)
    )
    runtime: OpenBoxRuntime | None = field(default=None, metadata=holds(kinds.OBJECT))
    validate: bool = field(default=True, metadata=holds(kinds.FLAG))

    @property
    def asks_core(self) -> bool:
        """Tell whether there is a Core; with ``"off"``, local contracts alone judge."""
        return self.core != "off"

    def _check(self) -> None:
        """Refuse two Cores at once."""
        if self.core is not None and self.runtime is not None:
            raise OptionError("core", "cannot be combined with option 'runtime'")

    def _require_address(self) -> None:
        """Refuse to begin without an address and a key where the remote Core is asked."""
        if self.core is not None or self.runtime is not None:
            return
        for name in ("api_url", "api_key"):
            if getattr(self, name) is None:
                variable = "OPENBOX_URL" if name == "api_url" else "OPENBOX_API_KEY"
                remedy = (
                    f"pass {name}=... or set {variable}; or core='local' for one in this process, "
                    "core='off' for contracts alone"
                )
                raise OptionError(name, "is required", remedy=remedy)


@dataclass(frozen=True, kw_only=True)
class GateOptions:
    """Say what a gate does where Core gives no usable answer, and how long it may take."""

    timeout_seconds: float = field(default=30.0, metadata=holds(kinds.SECONDS, is_base=True))
    gate_budget_seconds: float | None = field(default=None, metadata=holds(kinds.SECONDS))
    on_api_error: Literal["fail_open", "fail_closed"] = field(
        default="fail_closed", metadata=holds(kinds.choice("fail_open", "fail_closed"), is_base=True)
    )
    fail_closed_destructive: bool = field(default=False, metadata=holds(kinds.FLAG))
    on_unknown_verdict: Literal["block", "halt"] = field(
        default="block", metadata=holds(kinds.choice("block", "halt"))
    )

    @cached_property
    def gate_budget(self) -> float:
        """Give the seconds that one gate may take, retries included."""
        return self.timeout_seconds if self.gate_budget_seconds is None else self.gate_budget_seconds

    def withholds_unjudged_output(self, *, destructive: bool = False) -> bool:
        """Tell whether a result that Core could not be told of is kept back, as fail-closed wants it."""
        return self.on_api_error == "fail_closed" or (destructive and self.fail_closed_destructive)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Say what the runs belong to, and what of them is sent, gated and judged."""

    session_id: str | None = field(default=None, metadata=holds(kinds.TEXT))
    subject: Callable[..., Mapping[str, Any]] | None = field(default=None, metadata=holds(kinds.CALLABLE))
    task_queue: str = field(default="agentrt", metadata=holds(kinds.TEXT))
    send_run_start_event: bool = field(default=True, metadata=holds(kinds.FLAG))
    send_run_end_event: bool = field(default=True, metadata=holds(kinds.FLAG))
    send_llm_start_event: bool = field(default=True, metadata=holds(kinds.FLAG))
    send_llm_end_event: bool = field(default=True, metadata=holds(kinds.FLAG))
    send_tool_start_event: bool = field(default=True, metadata=holds(kinds.FLAG))
    send_tool_end_event: bool = field(default=True, metadata=holds(kinds.FLAG))
    telemetry: Literal["inline", "ordered"] = field(
        default="inline", metadata=holds(kinds.choice("inline", "ordered"))
    )
    max_payload_bytes: int = field(default=1_000_000, metadata=holds(kinds.WHOLE))
    tool_type_map: Mapping[str, str] = field(default_factory=dict, metadata=holds(kinds.TEXT_BY_NAME))
    skip_tools: Collection[str] = field(default=(), metadata=holds(kinds.NAMES))
    outputs: Literal["off", "enforce"] = field(default="off", metadata=holds(kinds.choice("off", "enforce")))
    redact_outputs: bool = field(default=False, metadata=holds(kinds.FLAG))
    buffer_streams: bool = field(default=False, metadata=holds(kinds.FLAG))
    outcomes: Mapping[str, OutcomeHook] = field(default_factory=dict, metadata=holds(kinds.CALLABLES_BY_NAME))

    def _check(self) -> None:
        """Refuse to enforce what Core says about results that it is not told of."""
        for name in ("send_llm_end_event", "send_tool_end_event"):
            if self.outputs == "enforce" and not getattr(self, name):
                raise OptionError("outputs", f"cannot be 'enforce' with option {name!r} off")

    @property
    def enforces_outputs(self) -> bool:
        """Tell whether what Core says about a result decides what is seen of it."""
        return self.outputs == "enforce" or self.redact_outputs or self.buffer_streams

    @property
    def reports_in_background(self) -> bool:
        """Tell whether ends are told in the background: never where the answer redacts or refuses."""
        return self.telemetry == "ordered" and not self.enforces_outputs


@dataclass(frozen=True, kw_only=True)
class RefusalOptions:
    """Say what follows a verdict that is no ALLOW: approvals, constraints, and what the model is told."""

    on_tool_block: Literal["raise", "return_error"] = field(
        default="raise", metadata=holds(kinds.choice("raise", "return_error"))
    )
    approval_mode: Literal["wait", "pause"] = field(
        default="wait", metadata=holds(kinds.choice("wait", "pause"))
    )
    approval_poll_interval_ms: int = field(default=5_000, metadata=holds(kinds.WHOLE))
    approval_max_wait_ms: int | None = field(
        default=3_600_000, metadata=holds(kinds.WHOLE_OR_NONE, none_is_a_value=True)
    )
    constraint_handlers: Mapping[str, Callable[[Decision], object]] = field(
        default_factory=dict, metadata=holds(kinds.CALLABLES_BY_NAME)
    )
    on_decision: Callable[[Decision], object] | None = field(default=None, metadata=holds(kinds.CALLABLE))
    on_approval: Callable[[ApprovalRequest], object] | str | None = field(
        default=None, metadata=holds(kinds.HOOK)
    )
    on_approval_secret: str | None = field(
        default=None, repr=False, metadata=holds(kinds.SECRET, is_secret=True)
    )


@dataclass(frozen=True, kw_only=True)
class ContractOptions:
    """Say which contracts hold, and over which runs."""

    contracts: (
        str
        | os.PathLike[str]
        | Iterable[TemporalContract]
        | Callable[[], Session]
        | Callable[[str], Session]
        | None
    ) = field(default=None, metadata=holds(kinds.PATH_OR_OBJECT))
    contracts_mode: Literal["enforce", "shadow"] = field(
        default="enforce", metadata=holds(kinds.choice("enforce", "shadow"))
    )
    reload_rules: bool = field(default=False, metadata=holds(kinds.FLAG))
    contract_scope: Literal["session", "run"] = field(
        default="session", metadata=holds(kinds.choice("session", "run"))
    )
    fleet: str | FleetStore | None = field(default=None, metadata=holds(kinds.PATH_OR_OBJECT))
    on_fleet_outage: Literal["refuse", "local"] = field(
        default="refuse", metadata=holds(kinds.choice("refuse", "local"))
    )
    lease_seconds: float = field(default=30.0, metadata=holds(kinds.SECONDS))
    fleet_timeout_seconds: float = field(default=0.25, metadata=holds(kinds.SECONDS))
    sessions: Literal["memory", "durable"] = field(
        default="memory", metadata=holds(kinds.choice("memory", "durable"))
    )
    session_idle_seconds: float = field(default=86_400.0, metadata=holds(kinds.SECONDS))
    max_sessions: int = field(default=100_000, metadata=holds(kinds.WHOLE))
    on_unmet: Literal["report", "raise"] = field(
        default="report", metadata=holds(kinds.choice("report", "raise"))
    )

    def _check(self) -> None:
        """Refuse durable sessions without a store to keep them in."""
        if (
            self.sessions == "durable"
            and not hasattr(self.fleet, "session")
            and not isinstance(self.fleet, str)
        ):
            raise OptionError(
                "sessions",
                "is 'durable', and there is no store to keep them in",
                remedy="set the option 'fleet' to the URL of a store, such as sqlite:///fleet.db",
            )


@dataclass(frozen=True, kw_only=True)
class EvidenceOptions:
    """Say what is kept of the decisions, where, and what of it is shown."""

    evidence: str | os.PathLike[str] | ViolationRecorder | None = field(
        default=None, metadata=holds(kinds.PATH_OR_OBJECT)
    )
    record: Literal["violations", "all", "steps"] = field(
        default="violations", metadata=holds(kinds.choice("violations", "all", "steps"))
    )
    signer: str | os.PathLike[str] | Callable[[bytes], str] | None = field(
        default=None, repr=False, metadata=holds(kinds.PATH_OR_OBJECT, is_secret=True)
    )
    previous_signer: str | os.PathLike[str] | None = field(
        default=None, repr=False, metadata=holds(kinds.PATH_OR_OBJECT, is_secret=True)
    )
    redact_fields: Collection[str] | None = field(default=None, metadata=holds(kinds.NAMES))
    redaction_key: str | os.PathLike[str] | bytes | None = field(
        default=None, repr=False, metadata=holds(kinds.PATH_OR_OBJECT, is_secret=True)
    )
    anchors: (
        str
        | os.PathLike[str]
        | Callable[[str], object]
        | Collection[str | os.PathLike[str] | Callable[[str], object]]
        | None
    ) = field(default=None, metadata=holds(kinds.PATH_OR_OBJECT))
    anchor_seconds: float = field(default=60.0, metadata=holds(kinds.SECONDS))
    metrics: Meter | None = field(default=None, metadata=holds(kinds.OBJECT))

    def _check(self) -> None:
        """Refuse a key that signs nothing, anchors of nothing, and a record that goes nowhere."""
        if self.record != "violations" and self.evidence is None:
            problem = f"is {self.record!r}, and no evidence is kept"
            raise OptionError("record", problem, remedy="set the option 'evidence' as well")
        if self.signer is not None and self.evidence is None:
            raise OptionError("signer", "signs the evidence", remedy="set the option 'evidence' as well")
        if self.previous_signer is not None and self.signer is None:
            raise OptionError(
                "previous_signer", "hands over to the option 'signer'", remedy="set that as well"
            )
        if self.anchors is not None and (self.signer is None or self.evidence is None):
            remedy = "set the options 'evidence' and 'signer' as well"
            raise OptionError("anchors", "keep signed checkpoints of the evidence", remedy=remedy)


@dataclass(frozen=True, kw_only=True)
class InstrumentationOptions:
    """Say which hooks of openbox_core are installed in the process, and what if another owner has them."""

    install_instrumentation: bool = field(default=True, metadata=holds(kinds.FLAG))
    instrumentation_strict: bool = field(default=False, metadata=holds(kinds.FLAG))
    instrument_files: bool = field(default=False, metadata=holds(kinds.FLAG))
