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

import logging
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from ._errors.options import InsecureURLError, MalformedKeyError, OptionError
from ._options import kinds
from ._options.declared import Declared, declarations
from ._options.groups import (
    ContractOptions,
    CoreOptions,
    EvidenceOptions,
    GateOptions,
    InstrumentationOptions,
    RefusalOptions,
    RunOptions,
)
from ._version import __version__

if TYPE_CHECKING:
    from openbox_core.config import OpenBoxConfig

__all__ = (
    "ENV_PREFIX",
    "ContractOptions",
    "CoreOptions",
    "EvidenceOptions",
    "GateOptions",
    "GovernanceOptions",
    "InstrumentationOptions",
    "RefusalOptions",
    "RunOptions",
    "takes_options",
)

ENV_PREFIX: Final = "OPENBOX_AGENTRT"
BASE_ENV_PREFIX: Final = "OPENBOX"
LOCAL_CORE_URL: Final = "https://local-core.invalid"
LOCAL_CORE_KEY: Final = "obx_test_local_core"

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class GovernanceOptions(
    CoreOptions,
    GateOptions,
    RunOptions,
    RefusalOptions,
    ContractOptions,
    EvidenceOptions,
    InstrumentationOptions,
):
    """
    Hold everything that can be set on a governance.

    Build it with `resolve`, or directly when the environment should not be looked at; values are checked
    either way. The start flags (``send_*_start_event``) also switch that gate and its redaction off: they are
    not observability switches.

    Attributes:
        core: None for the remote Core; ``"local"`` or a `LocalCore` for one in this process; ``"off"`` for
            none: contracts alone.
        runtime: An `OpenBoxRuntime` to use instead of building one. It wins over the address and identity.
        validate: Check the API key at start-up.
        subject: Says what a run is about, ``subject(agent, messages, tool_context)``, where its tool context
            does not: ``$subject.customer`` in the key of a contract.
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
        reload_rules: Read the rules file again whenever it changes, see ``reload`` of the governance.
        contract_scope: Whose calls a contract counts together that names no scope: of one session id, or run.
        fleet: Where contracts with scope "fleet" count: the URL of a store, or a store.
        on_fleet_outage: What follows when that store does not answer: ``refuse`` what such a contract is
            about, or count in this process (``local``), which is marked.
        lease_seconds: How long what a process reserved there stays reserved when it gives no sign of life.
        fleet_timeout_seconds: How long a call waits for that store.
        sessions: Where it is remembered what the runs of one session have done: in this process (``memory``),
            or in the store of the fleet (``durable``), so that a restart or another process goes on with it.
        session_idle_seconds: How long a session lasts that no run uses.
        max_sessions: How many sessions that count something may be open.
        on_unmet: ``report`` an obligation that a run leaves open, or ``raise``.
        record: What goes into the evidence: ``violations``, ``all`` decisions, or also the ``steps`` of the
            contracts' sessions, from which each decision can be derived again.
        redaction_key: Key of redaction markers, as bytes or as a file: equal secrets have equal markers in
            all logs and after a restart. By default it is derived from the signer, or random without one.
        previous_signer: Key file that signed the evidence so far, where ``signer`` takes over.
        anchors: Who keeps signed checkpoints of the evidence: folders, URLs of witnesses, functions.
        anchor_seconds: How long a record may be without a checkpoint there.
        on_tool_block: ``raise``, or ``return_error``: the model sees a tool error and the run goes on.
        on_unknown_verdict: What an answer that is not understood counts as. It is never an ALLOW.
        outputs: ``enforce``: what Core says about a result decides what the model and the caller see of it.
        redact_outputs: An older spelling of ``outputs="enforce"``.
        buffer_streams: An older spelling of ``outputs="enforce"``.
        outcomes: Say by tool name what became of a call that returned, as `acel.outcome.OutcomeHook` does.
        constraint_handlers: Handlers for CONSTRAIN by constraint name.
        on_decision: Called with every `Decision`.
        on_approval: Told of each call that waits for a person: called with an `ApprovalRequest`, or a URL to
            which it is posted as JSON. No run waits for it.
        on_approval_secret: Key of the HMAC-SHA256 with which what is posted there is signed.
        fail_closed_destructive: Keep consequential and destructive tools closed in an outage all the same.
        gate_budget_seconds: Time for one gate, retries included; None for `timeout_seconds`.
        max_payload_bytes: Size up to which each text of an input is sent whole. A longer one is cut, which is
            marked; a call of which Core could be shown only a part is refused.
    """

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if value is None and item.default is None:
                continue
            object.__setattr__(self, item.name, _checked(item.name, value, source=None))
        CoreOptions._check(self)
        RunOptions._check(self)
        ContractOptions._check(self)
        EvidenceOptions._check(self)
        if not self.asks_core:
            self._leave_core_out()

    @classmethod
    def resolve(cls, *, environ: Mapping[str, str] | None = None, **explicit: Any) -> GovernanceOptions:
        """
        Look the options up in arguments and the environment.

        Args:
            environ: Variables to look at instead of `os.environ`.
            explicit: Options by name.

        Raises:
            OptionError: A name, a variable or a value is not known, or a required option is missing.
        """
        for name in explicit:
            if name not in OPTIONS:
                raise OptionError(name, "is not known", nearest=kinds.nearest(name, OPTIONS))
        given = {
            name: value
            for name, value in explicit.items()
            if value is not None or OPTIONS[name].none_is_a_value
        }
        environment = os.environ if environ is None else environ
        _refuse_unknown_variables(environment)
        _tell_of_likely_misspellings(environment)
        options = cls(**_from_environment(environment, skip=given.keys()), **given)
        options._require_address()
        return options

    def _leave_core_out(self) -> None:
        """Switch off all that only a Core could answer, so that nobody has to ask for it."""
        if self.contracts is None:
            remedy = "set the option 'contracts', or core='local' for a Core in this process"
            raise OptionError(
                "core", "is 'off', and without contracts nothing would be judged", remedy=remedy
            )
        for name in _FOR_CORE:
            object.__setattr__(self, name, False)

    def to_config(self) -> OpenBoxConfig:
        """
        Give the settings as openbox_core reads them. For a Core in this process, the address is made up.

        Raises:
            OpenBoxConfigError: The identity options do not fit together.
        """
        from openbox_core.config import HitlConfig, InstrumentationConfig

        from ._options.quiet_config import QuietConfig

        given = {
            name: value
            for name, declared in OPTIONS.items()
            if declared.is_base and (value := getattr(self, name)) is not None
        }
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


_FOR_CORE: Final = (
    "validate",
    "install_instrumentation",
    "instrument_files",
    "send_run_start_event",
    "send_run_end_event",
    "send_llm_start_event",
    "send_llm_end_event",
    "send_tool_start_event",
    "send_tool_end_event",
)
"""What is False where there is no Core."""

OPTIONS: Final[Mapping[str, Declared]] = declarations(GovernanceOptions)
"""Every option by its name."""


@dataclass(frozen=True, kw_only=True)
class _Arguments(GovernanceOptions):
    """Have the signature of `create_openbox_agentrt`, for type checkers."""

    environ: Mapping[str, str] | None = None


def _like(made: Callable[P, object]) -> Callable[[Callable[..., R]], Callable[P, R]]:
    def typed(function: Callable[..., R]) -> Callable[P, R]:
        return function

    return typed


_DEBUG: Final = f"{ENV_PREFIX}_DEBUG"
"""A variable of the command line: its errors are raised."""

_A_SLIP: Final = 0.9
"""Two variables that are so alike differ by a slip of the hand."""

log = logging.getLogger(__name__)

takes_options = _like(_Arguments)
"""
Let type checkers see a function that takes ``**options`` as taking all options of `create_openbox_agentrt`.

A decorator for functions that pass options on. It returns the function itself.
"""


def _variables(name: str) -> list[str]:
    declared = OPTIONS[name]
    prefixes = (ENV_PREFIX,) if declared.own_prefix_only else (ENV_PREFIX, BASE_ENV_PREFIX)
    suffixes = declared.variables or (name.upper(),)
    return [f"{prefix}_{suffix}" for prefix in prefixes for suffix in suffixes]


def _refuse_unknown_variables(environ: Mapping[str, str]) -> None:
    own = [variable for variable in environ if variable.startswith(f"{ENV_PREFIX}_")]
    if not own:
        return
    known = {*_known_variables(), _DEBUG}
    for variable in own:
        # A misspelt variable would silently leave a default such as fail_open in force.
        if variable not in known and environ[variable].strip():
            raise OptionError(variable, "is not known", nearest=kinds.nearest(variable, known))


def _tell_of_likely_misspellings(environ: Mapping[str, str]) -> None:
    # Not refused: another OpenBox SDK in the process may know the variable.
    known = _known_variables()
    for variable, text in environ.items():
        if variable.startswith(f"{BASE_ENV_PREFIX}_") and text.strip() and variable not in (*known, _DEBUG):
            meant = kinds.nearest(variable, known, cutoff=_A_SLIP)
            if meant is not None:
                log.warning("variable %s is not known; did you mean %s", variable, meant)


def _known_variables() -> set[str]:
    return {variable for name in OPTIONS for variable in _variables(name)}


def _from_environment(environ: Mapping[str, str], *, skip: Collection[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, declared in OPTIONS.items():
        if name in skip:
            continue
        for variable in _variables(name):
            text = environ.get(variable, "")
            if not text.strip():
                continue
            if declared.kind.read is None:
                if variable.startswith(f"{ENV_PREFIX}_"):
                    raise OptionError(name, "cannot be set from the environment", source=variable)
                continue
            read = declared.kind.read
            found[name] = _checked(name, text, source=variable, read=read)
            break
    return found


def _checked(
    name: str, value: object, *, source: str | None, read: Callable[[str], object] | None = None
) -> object:
    declared = OPTIONS[name]
    shown = None if declared.is_secret else value
    try:
        return declared.kind.check(value if read is None else read(str(value)))
    except kinds.InsecureURL as error:
        raise InsecureURLError(name, error.problem, value=shown, source=source) from None
    except kinds.MalformedKey as error:
        raise MalformedKeyError(name, error.problem, source=source) from None
    except kinds.Unfit as error:
        raise OptionError(name, error.problem, value=shown, source=source, nearest=error.nearest) from None
