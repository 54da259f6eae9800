"""acel-core's module name. The code is in `openbox_agentrt.acel.contracts`."""

from .contracts.identity import rules_hash
from .contracts.registry import TEMPLATES
from .contracts.spec import build_contract

__all__ = ("TEMPLATES", "build_contract", "rules_hash")
