"""
Options of a governance: arguments, then the environment, then defaults.

Nothing is read on import. `GovernanceOptions.resolve` looks for each option in this order:

1. the explicit argument (``None`` means "not given", except for `approval_max_wait_ms`);
2. ``OPENBOX_AGENTRT_<OPTION>``;
3. ``OPENBOX_<OPTION>``;
4. the default.

`api_url` is also read from ``OPENBOX_AGENTRT_URL`` and ``OPENBOX_URL``. A blank variable is not set. `core`
comes from the argument or from ``OPENBOX_AGENTRT_CORE`` only. A name or value that is not known is an
`OptionError` that names it, before anything is started.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, Literal, Unpack

from ._errors.options import InsecureURLError, MalformedKeyError, OptionError
from ._options import checks as kinds
from ._options.arguments import OptionArguments
from ._version import __version__

if TYPE_CHECKING:
    from openbox_core.config import OpenBoxConfig
    from openbox_core.runtime import OpenBoxRuntime

    from .decision import Decision

__all__ = ("ENV_PREFIX", "GovernanceOptions", "OptionArguments")

ENV_PREFIX: Final = "OPENBOX_AGENTRT"
BASE_ENV_PREFIX: Final = "OPENBOX"
LOCAL_CORE_URL: Final = "https://local-core.invalid"
LOCAL_CORE_KEY: Final = "obx_test_local_core"

BASE_KINDS: Final[Mapping[str, kinds.Kind]] = {
    "api_url": kinds.URL,
    "api_key": kinds.API_KEY,
    "agent_name": kinds.TEXT,
    "timeout_seconds": kinds.SECONDS,
    "on_api_error": kinds.choice("fail_open", "fail_closed"),
    "agent_did": kinds.TEXT,
    "agent_private_key": kinds.SECRET,
    "workload_private_key": kinds.SECRET,
    "identity_method": kinds.choice("openbox_did", "okta_ai_agent"),
    "okta_agent_id": kinds.TEXT,
    "okta_agent_key_id": kinds.TEXT,
    "okta_agent_private_key": kinds.SECRET,
    "okta_agent_algorithm": kinds.TEXT,
    "openbox_agent_id": kinds.TEXT,
    "organization_id": kinds.TEXT,
    "deployment_id": kinds.TEXT,
    "agent_proof_audience": kinds.TEXT,
}
"""Options of openbox_core, forwarded to `OpenBoxConfig.resolve`."""

KINDS: Final[Mapping[str, kinds.Kind]] = {
    **BASE_KINDS,
    "core": kinds.CORE,
    "runtime": kinds.OBJECT,
    "validate": kinds.FLAG,
    "install_instrumentation": kinds.FLAG,
    "instrumentation_strict": kinds.FLAG,
    "instrument_files": kinds.FLAG,
    "session_id": kinds.TEXT,
    "task_queue": kinds.TEXT,
    "send_run_start_event": kinds.FLAG,
    "send_run_end_event": kinds.FLAG,
    "send_llm_start_event": kinds.FLAG,
    "send_llm_end_event": kinds.FLAG,
    "send_tool_start_event": kinds.FLAG,
    "send_tool_end_event": kinds.FLAG,
    "telemetry": kinds.choice("inline", "ordered"),
    "tool_type_map": kinds.TEXT_BY_NAME,
    "skip_tools": kinds.NAMES,
    "approval_poll_interval_ms": kinds.WHOLE,
    "approval_max_wait_ms": kinds.WHOLE_OR_NONE,
    "approval_mode": kinds.choice("wait", "pause"),
    "contracts": kinds.PATH_OR_OBJECT,
    "contracts_mode": kinds.choice("enforce", "shadow"),
    "contract_scope": kinds.choice("session", "run"),
    "on_unmet": kinds.choice("report", "raise"),
    "evidence": kinds.PATH_OR_OBJECT,
    "record": kinds.choice("violations", "all"),
    "signer": kinds.PATH_OR_OBJECT,
    "redact_fields": kinds.NAMES,
    "metrics": kinds.OBJECT,
    "on_tool_block": kinds.choice("raise", "return_error"),
    "on_unknown_verdict": kinds.choice("block", "halt"),
    "redact_outputs": kinds.FLAG,
    "buffer_streams": kinds.FLAG,
    "constraint_handlers": kinds.CALLABLES_BY_NAME,
    "on_decision": kinds.CALLABLE,
    "fail_closed_destructive": kinds.FLAG,
    "gate_budget_seconds": kinds.SECONDS,
    "max_payload_bytes": kinds.WHOLE,
}

_SUFFIXES: Final[Mapping[str, tuple[str, ...]]] = {
    "api_url": ("API_URL", "URL"),
    # openbox_core's own names for these two.
    "identity_method": ("AGENT_IDENTITY_METHOD",),
    "openbox_agent_id": ("AGENT_ID",),
}
_OWN_PREFIX_ONLY: Final = frozenset({"core"})
_SECRET: Final = frozenset(
    # The URL, because a mistyped one may hold a password.
    {"api_key", "agent_private_key", "workload_private_key", "okta_agent_private_key", "signer", "api_url"}
)
_NONE_IS_A_VALUE: Final = frozenset({"approval_max_wait_ms"})


@dataclass(frozen=True, slots=True, kw_only=True)
class GovernanceOptions:
    """
    Everything that can be set on a governance.

    Build it with `resolve`, or directly when the environment should not be looked at; values are checked
    either way. The start flags (``send_*_start_event``) also switch that gate and its redaction off: they are
    not observability switches.

    Attributes:
        core: None for the remote Core; ``"local"`` or a `LocalCore` for one in this process.
        runtime: An `OpenBoxRuntime` to use instead of building one. It wins over the address and identity.
        validate: Check the API key at start-up.
        install_instrumentation: Install openbox_core's HTTP and database hooks; one owner per process.
        instrumentation_strict: Raise, instead of warn, when another governance owns the hooks.
        instrument_files: Also install the file hooks, which replace ``open()`` and call Core synchronously.
        telemetry: Whether work waits while Core hears of its end (``inline``), or goes on up to the next gate
            (``ordered``).
        tool_type_map: Policy classification by tool name.
        skip_tools: Tools that are not governed.
        approval_max_wait_ms: None waits without a limit.
        approval_mode: ``wait`` for the person, or ``pause`` with Agent-RT's ``ApprovalRequiredError``.
        contracts: A rules file, an iterable of contracts, or a callable that builds an ``acel.Session``.
        contract_scope: Whether the runs of one session id share their automata.
        on_unmet: ``report`` an obligation that a run leaves open, or ``raise``.
        record: What goes into the evidence: ``violations``, or ``all`` decisions.
        on_tool_block: ``raise``, or ``return_error``: the model sees a tool error and the run goes on.
        on_unknown_verdict: What an answer that is not understood counts as. It is never an ALLOW.
        redact_outputs: Apply Core's output redaction to what the model sees next.
        buffer_streams: Hold a model stream back until its completed response has been judged.
        constraint_handlers: Handlers for CONSTRAIN by constraint name.
        on_decision: Called with every `Decision`.
        fail_closed_destructive: Keep consequential and destructive tools closed in an outage all the same.
        gate_budget_seconds: Time for one gate, retries included; None for `timeout_seconds`.
        max_payload_bytes: Size up to which a payload is sent whole; the rest is cut and replaced by its hash.
    """

    api_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    agent_name: str | None = None
    timeout_seconds: float = 30.0
    on_api_error: Literal["fail_open", "fail_closed"] = "fail_open"
    agent_did: str | None = None
    agent_private_key: str | None = field(default=None, repr=False)
    workload_private_key: str | None = field(default=None, repr=False)
    identity_method: Literal["openbox_did", "okta_ai_agent"] | None = None
    okta_agent_id: str | None = None
    okta_agent_key_id: str | None = None
    okta_agent_private_key: str | None = field(default=None, repr=False)
    okta_agent_algorithm: str | None = None
    openbox_agent_id: str | None = None
    organization_id: str | None = None
    deployment_id: str | None = None
    agent_proof_audience: str | None = None
    core: Any = None
    runtime: OpenBoxRuntime | None = None
    validate: bool = True
    install_instrumentation: bool = True
    instrumentation_strict: bool = False
    instrument_files: bool = False
    session_id: str | None = None
    task_queue: str = "agentrt"
    send_run_start_event: bool = True
    send_run_end_event: bool = True
    send_llm_start_event: bool = True
    send_llm_end_event: bool = True
    send_tool_start_event: bool = True
    send_tool_end_event: bool = True
    telemetry: Literal["inline", "ordered"] = "inline"
    tool_type_map: Mapping[str, str] = field(default_factory=dict)
    skip_tools: Collection[str] = ()
    approval_poll_interval_ms: int = 5_000
    approval_max_wait_ms: int | None = 3_600_000
    approval_mode: Literal["wait", "pause"] = "wait"
    contracts: Any = None
    contracts_mode: Literal["enforce", "shadow"] = "enforce"
    contract_scope: Literal["session", "run"] = "session"
    on_unmet: Literal["report", "raise"] = "report"
    evidence: Any = None
    record: Literal["violations", "all"] = "violations"
    signer: Any = field(default=None, repr=False)
    redact_fields: Collection[str] | None = None
    metrics: Any = None
    on_tool_block: Literal["raise", "return_error"] = "raise"
    on_unknown_verdict: Literal["block", "halt"] = "block"
    redact_outputs: bool = False
    buffer_streams: bool = False
    constraint_handlers: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    on_decision: Callable[[Decision], Any] | None = None
    fail_closed_destructive: bool = False
    gate_budget_seconds: float | None = None
    max_payload_bytes: int = 1_000_000

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if value is None and item.default is None:
                continue
            object.__setattr__(self, item.name, _checked(item.name, value, source=None))
        if self.core is not None and self.runtime is not None:
            raise OptionError("core", "cannot be combined with option 'runtime'")

    @property
    def gate_budget(self) -> float:
        """Seconds that one gate may take, retries included."""
        return self.timeout_seconds if self.gate_budget_seconds is None else self.gate_budget_seconds

    @property
    def reports_in_background(self) -> bool:
        """Whether ends are told in the background; never where the answer redacts or refuses the result."""
        return self.telemetry == "ordered" and not (self.redact_outputs or self.buffer_streams)

    def withholds_unjudged_output(self, *, destructive: bool = False) -> bool:
        """Whether a result that Core could not be told of is kept back: fail-closed holds for outputs too."""
        return self.on_api_error == "fail_closed" or (destructive and self.fail_closed_destructive)

    @classmethod
    def resolve(
        cls, *, environ: Mapping[str, str] | None = None, **explicit: Unpack[OptionArguments]
    ) -> GovernanceOptions:
        """
        Options from arguments and the environment.

        Args:
            environ: Variables to look at instead of `os.environ`.
            explicit: Options by name.

        Raises:
            OptionError: A name, a variable or a value is not known, or a required option is missing.
        """
        for name in explicit:
            if name not in KINDS:
                raise OptionError(name, "is not known", nearest=kinds.nearest(name, KINDS))
        given = {
            name: value for name, value in explicit.items() if value is not None or name in _NONE_IS_A_VALUE
        }
        environment = os.environ if environ is None else environ
        _refuse_unknown_variables(environment)
        values = {**_from_environment(environment, skip=given.keys()), **given}
        options = cls(**values)
        if options.core is None and options.runtime is None:
            for name in ("api_url", "api_key"):
                if getattr(options, name) is None:
                    variable = "OPENBOX_URL" if name == "api_url" else f"{BASE_ENV_PREFIX}_{name.upper()}"
                    remedy = f"pass {name}=... or set {variable}, or core='local' for one in this process"
                    raise OptionError(name, "is required", remedy=remedy)
        return options

    def to_config(self) -> OpenBoxConfig:
        """
        The same settings as openbox_core reads them. For an in-process Core, the address is a placeholder.

        Raises:
            OpenBoxConfigError: The identity options do not fit together.
        """
        from openbox_core.config import HitlConfig, InstrumentationConfig

        from ._options.quiet_config import QuietConfig

        given = {name: value for name in BASE_KINDS if (value := getattr(self, name)) is not None}
        if self.core is not None:
            # It has a key of its own, and an address that nothing else can have: the hooks ignore that one.
            key = getattr(self.core, "api_key", LOCAL_CORE_KEY)
            given |= {"api_url": LOCAL_CORE_URL, "api_key": key}
        return QuietConfig.resolve(
            env_prefix=ENV_PREFIX,
            environ={},  # already resolved, with blank variables left out
            sdk_engine="agentrt",
            sdk_language="python",
            sdk_version=__version__,
            hitl=HitlConfig(
                poll_interval_ms=self.approval_poll_interval_ms, max_wait_ms=self.approval_max_wait_ms
            ),
            instrumentation=InstrumentationConfig(
                enabled=self.install_instrumentation, file_enabled=self.instrument_files
            ),
            **given,
        )


def _variables(name: str) -> list[str]:
    prefixes = (ENV_PREFIX,) if name in _OWN_PREFIX_ONLY else (ENV_PREFIX, BASE_ENV_PREFIX)
    suffixes = _SUFFIXES.get(name, (name.upper(),))
    return [f"{prefix}_{suffix}" for prefix in prefixes for suffix in suffixes]


def _refuse_unknown_variables(environ: Mapping[str, str]) -> None:
    own = [variable for variable in environ if variable.startswith(f"{ENV_PREFIX}_")]
    if not own:
        return
    known = {variable for name in KINDS for variable in _variables(name)}
    for variable in own:
        # A misspelt variable would silently leave a default such as fail_open in force.
        if variable not in known and environ[variable].strip():
            raise OptionError(variable, "is not known", nearest=kinds.nearest(variable, known))


def _from_environment(environ: Mapping[str, str], *, skip: Collection[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, kind in KINDS.items():
        if name in skip:
            continue
        for variable in _variables(name):
            text = environ.get(variable, "")
            if not text.strip():
                continue
            if kind.read is None:
                if variable.startswith(f"{ENV_PREFIX}_"):
                    raise OptionError(name, "cannot be set from the environment", source=variable)
                continue
            read = kind.read
            found[name] = _checked(name, text, source=variable, read=read)
            break
    return found


def _checked(
    name: str, value: object, *, source: str | None, read: Callable[[str], object] | None = None
) -> object:
    shown = None if name in _SECRET else value
    try:
        return KINDS[name].check(value if read is None else read(str(value)))
    except kinds.InsecureURL as error:
        raise InsecureURLError(name, error.problem, value=shown, source=source) from None
    except kinds.MalformedKey as error:
        raise MalformedKeyError(name, error.problem, source=source) from None
    except kinds.Unfit as error:
        raise OptionError(name, error.problem, value=shown, source=source, nearest=error.nearest) from None
