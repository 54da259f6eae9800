"""Ask a policy, whatever it is written in."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

from .failures import place_of
from .policy import PolicyDecision, fault, understand

History = Callable[[], list[dict[str, Any]]]
PolicyCallable = Callable[[dict[str, Any]], object]
Policy = str | os.PathLike[str] | PolicyCallable | None

logger = logging.getLogger(__name__)


class PolicyJudge:
    """A policy that can be asked. It never raises: what cannot be followed is a BLOCK."""

    def __init__(self, ask: Callable[[dict[str, Any], History], object], *, name: str) -> None:
        self._ask = ask
        self.name = name

    def rule(self, event: dict[str, Any], history: History) -> PolicyDecision:
        """Decide about `event`, in a run with that history."""
        try:
            said = self._ask(event, history)
            decision = said if isinstance(said, PolicyDecision) else understand(said)
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything
            # Fail-closed: whatever a policy raises, the event was not allowed by it.
            logger.warning("policy %s failed on %s: %s", self.name, event.get("event_type"), place_of(error))
            return fault(f"the policy failed ({type(error).__name__})")
        if decision.fault:
            logger.warning("policy %s on %s: %s", self.name, event.get("event_type"), decision.reason)
        return decision


def load(policy: Policy) -> PolicyJudge:
    """
    Make the judge for a policy: a Rego file, a Python callable, or ``None`` to allow everything.

    Raises:
        PolicyError: The file is missing, is not Rego, or has no rule ``result``.
        MissingExtraError: Rego needs the extra ``local``.
    """
    if policy is None:
        return PolicyJudge(lambda event, history: None, name="local/allow-all")
    if callable(policy):
        asked = policy
        return PolicyJudge(lambda event, history: asked(event), name=f"local/{_callable_name(policy)}")
    if isinstance(policy, str | os.PathLike):
        from .rego.policy import RegoPolicy

        rego = RegoPolicy(policy)
        return PolicyJudge(rego.ask, name=f"local/{rego.package}")
    raise TypeError(f"a policy is a path, a callable or None, not {type(policy).__name__}")


def _callable_name(policy: object) -> str:
    return str(getattr(policy, "__name__", type(policy).__name__)).strip("<>")
