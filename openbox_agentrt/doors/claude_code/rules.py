"""The rules file of a hook, read in each process."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from openbox_agentrt.doors.claude_code.folder import HookFault

if TYPE_CHECKING:
    from openbox_agentrt.acel.contracts.base import TemporalContract

__all__ = ("HookRules", "load_hook_rules")


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRules:
    """
    What calls are judged by.

    Attributes:
        contracts: The contracts.
        state: The initial state.
        rules_hash: Hash of the contracts, as evidence has it.
        hash: Stands for both: two files with one hash decide alike.
    """

    contracts: tuple[TemporalContract, ...]
    state: Mapping[str, Any]
    rules_hash: str
    hash: str


def load_hook_rules(path: str | os.PathLike[str]) -> HookRules:
    """
    Read a rules file.

    Raises:
        HookFault: It is missing, or is no rules file.
    """
    from openbox_agentrt.acel.rulesfile import ConfigError, read_rules

    try:
        rules = read_rules(path)
    except (ConfigError, OSError) as error:
        raise HookFault(f"the rules cannot be read: {error}") from error
    text = json.dumps([rules.rules_hash, rules.state], sort_keys=True, default=str)
    return HookRules(
        contracts=rules.contracts,
        state=rules.state,
        rules_hash=rules.rules_hash,
        hash=hashlib.sha256(text.encode()).hexdigest()[:32],
    )
