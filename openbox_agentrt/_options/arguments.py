"""The options as keyword arguments, for type checkers: names and types are checked where they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Iterable, Mapping

    from openbox_core.runtime import OpenBoxRuntime

    from ..acel.contracts.base import TemporalContract
    from ..acel.engine.records import Meter, Recorder
    from ..acel.session import Session
    from ..decision import Decision
    from .in_process import InProcessCore

__all__ = ("OptionArguments",)


class OptionArguments(TypedDict, total=False):
    """
    What `create_openbox_agentrt` and `GovernanceOptions.resolve` take. None means "not given", except for
    `approval_max_wait_ms`; `GovernanceOptions` says what each option means.
    """

    api_url: str | None
    api_key: str | None
    agent_name: str | None
    timeout_seconds: float | None
    on_api_error: Literal["fail_open", "fail_closed"] | None
    agent_did: str | None
    agent_private_key: str | None
    workload_private_key: str | None
    identity_method: Literal["openbox_did", "okta_ai_agent"] | None
    okta_agent_id: str | None
    okta_agent_key_id: str | None
    okta_agent_private_key: str | None
    okta_agent_algorithm: str | None
    openbox_agent_id: str | None
    organization_id: str | None
    deployment_id: str | None
    agent_proof_audience: str | None
    core: InProcessCore | Literal["local"] | None
    runtime: OpenBoxRuntime | None
    validate: bool | None
    install_instrumentation: bool | None
    instrumentation_strict: bool | None
    instrument_files: bool | None
    session_id: str | None
    task_queue: str | None
    send_run_start_event: bool | None
    send_run_end_event: bool | None
    send_llm_start_event: bool | None
    send_llm_end_event: bool | None
    send_tool_start_event: bool | None
    send_tool_end_event: bool | None
    telemetry: Literal["inline", "ordered"] | None
    tool_type_map: Mapping[str, str] | None
    skip_tools: Collection[str] | None
    approval_poll_interval_ms: int | None
    approval_max_wait_ms: int | None
    approval_mode: Literal["wait", "pause"] | None
    contracts: (
        str
        | os.PathLike[str]
        | Iterable[TemporalContract]
        | Callable[[], Session]
        | Callable[[str], Session]
        | None
    )
    contracts_mode: Literal["enforce", "shadow"] | None
    contract_scope: Literal["session", "run"] | None
    on_unmet: Literal["report", "raise"] | None
    evidence: str | os.PathLike[str] | Recorder | None
    record: Literal["violations", "all"] | None
    signer: str | os.PathLike[str] | Callable[[bytes], str] | None
    redact_fields: Collection[str] | None
    metrics: Meter | None
    on_tool_block: Literal["raise", "return_error"] | None
    on_unknown_verdict: Literal["block", "halt"] | None
    redact_outputs: bool | None
    buffer_streams: bool | None
    constraint_handlers: Mapping[str, Callable[[Decision], object]] | None
    on_decision: Callable[[Decision], object] | None
    fail_closed_destructive: bool | None
    gate_budget_seconds: float | None
    max_payload_bytes: int | None
