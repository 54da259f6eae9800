"""acel-core's module name. The code is in `openbox_agentrt.acel.contracts.registry`."""

from .contracts.registry import TEMPLATES, build_contract, rules_hash

__all__ = ("TEMPLATES", "build_contract", "rules_hash")
