"""
Governance for Agent-RT agents: local contracts and OpenBox policy decide before anything runs.

Importing this loads nothing else: names are looked up in their modules when they are first used.
"""

from __future__ import annotations

from ._lazy import lazy_names
from ._version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._loop.coverage import Coverage, Escape
    from ._loop.loop import GovernedAgentLoop
    from ._run.current import current_run
    from ._run.state import RunState
    from .decision import Decision
    from .errors import (
        ApprovalExpiredError,
        ApprovalRejectedError,
        ApprovalTimeoutError,
        ContractRefusedError,
        GovernanceBlockedError,
        GovernanceError,
        GovernanceHaltError,
        GovernanceUnavailableError,
        GuardrailsValidationError,
        InsecureURLError,
        MalformedKeyError,
        OpenBoxAuthError,
        OpenBoxConfigError,
        OpenBoxError,
        OpenBoxSigningError,
        OptionError,
        UngovernedCallError,
        UnmetContractError,
        find_governance_error,
    )
    from .governance import OpenBoxAgentRTGovernance, create_openbox_agentrt
    from .options import GovernanceOptions

_HOME = {
    "ApprovalExpiredError": "errors",
    "ApprovalRejectedError": "errors",
    "ApprovalTimeoutError": "errors",
    "ContractRefusedError": "errors",
    "Coverage": "_loop.coverage",
    "Decision": "decision",
    "Escape": "_loop.coverage",
    "GovernanceBlockedError": "errors",
    "GovernanceError": "errors",
    "GovernanceHaltError": "errors",
    "GovernanceOptions": "options",
    "GovernanceUnavailableError": "errors",
    "GovernedAgentLoop": "_loop.loop",
    "GuardrailsValidationError": "errors",
    "InsecureURLError": "errors",
    "MalformedKeyError": "errors",
    "OpenBoxAgentRTGovernance": "governance",
    "OpenBoxAuthError": "errors",
    "OpenBoxConfigError": "errors",
    "OpenBoxError": "errors",
    "OpenBoxSigningError": "errors",
    "OptionError": "errors",
    "RunState": "_run.state",
    "UngovernedCallError": "errors",
    "UnmetContractError": "errors",
    "create_openbox_agentrt": "governance",
    "current_run": "_run.current",
    "find_governance_error": "errors",
}

__all__ = (
    "ApprovalExpiredError",
    "ApprovalRejectedError",
    "ApprovalTimeoutError",
    "ContractRefusedError",
    "Coverage",
    "Decision",
    "Escape",
    "GovernanceBlockedError",
    "GovernanceError",
    "GovernanceHaltError",
    "GovernanceOptions",
    "GovernanceUnavailableError",
    "GovernedAgentLoop",
    "GuardrailsValidationError",
    "InsecureURLError",
    "MalformedKeyError",
    "OpenBoxAgentRTGovernance",
    "OpenBoxAuthError",
    "OpenBoxConfigError",
    "OpenBoxError",
    "OpenBoxSigningError",
    "OptionError",
    "RunState",
    "UngovernedCallError",
    "UnmetContractError",
    "__version__",
    "create_openbox_agentrt",
    "current_run",
    "find_governance_error",
)

__getattr__, __dir__ = lazy_names(globals(), _HOME)
