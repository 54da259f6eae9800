"""Decisions that are in every log, whatever else it keeps."""

from collections.abc import Mapping
from typing import Any

_REFUSING = frozenset(("block", "halt"))


def is_ungoverned(decision: Mapping[str, Any]) -> bool:
    """Tell whether a call passed although the policy service could not be asked."""
    return decision.get("unreachable") is True and decision.get("verdict") not in _REFUSING


def is_always_kept(decision: Mapping[str, Any]) -> bool:
    """Tell whether a call passed although somebody could not be asked: Core, or the store of the fleet."""
    return is_ungoverned(decision) or decision.get("fleet") == "local"
