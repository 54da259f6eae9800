"""
Governance for Agent-RT agents: local contracts and OpenBox policy decide before anything runs.

Importing this loads nothing else: names are looked up in their modules when they are first used.
"""

from __future__ import annotations

from ._lazy import lazy_names
from ._version import __version__ as __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._loop.coverage import Coverage as Coverage
    from ._loop.coverage import Escape as Escape
    from ._loop.loop import GovernedAgentLoop as GovernedAgentLoop
    from ._run.current import current_run as current_run
    from ._run.state import RunState as RunState
    from .decision import Decision as Decision
    from .errors import ApprovalExpiredError as ApprovalExpiredError
    from .errors import ApprovalRejectedError as ApprovalRejectedError
    from .errors import ApprovalTimeoutError as ApprovalTimeoutError
    from .errors import ContractRefusedError as ContractRefusedError
    from .errors import GovernanceBlockedError as GovernanceBlockedError
    from .errors import GovernanceError as GovernanceError
    from .errors import GovernanceHaltError as GovernanceHaltError
    from .errors import GovernanceUnavailableError as GovernanceUnavailableError
    from .errors import GuardrailsValidationError as GuardrailsValidationError
    from .errors import InsecureURLError as InsecureURLError
    from .errors import MalformedKeyError as MalformedKeyError
    from .errors import OpenBoxAuthError as OpenBoxAuthError
    from .errors import OpenBoxConfigError as OpenBoxConfigError
    from .errors import OpenBoxError as OpenBoxError
    from .errors import OpenBoxSigningError as OpenBoxSigningError
    from .errors import OptionError as OptionError
    from .errors import UngovernedCallError as UngovernedCallError
    from .errors import UnmetContractError as UnmetContractError
    from .errors import find_governance_error as find_governance_error
    from .governance import OpenBoxAgentRTGovernance as OpenBoxAgentRTGovernance
    from .governance import create_openbox_agentrt as create_openbox_agentrt
    from .options import GovernanceOptions as GovernanceOptions

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

__all__ = tuple(sorted(["__version__", *_HOME]))

__getattr__, __dir__ = lazy_names(globals(), _HOME)
