"""Read what a policy says, and make of it what Core answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec

from .._plain.words import word

# From the most lenient to the strictest.
Verdict = Literal["allow", "constrain", "require_approval", "block", "halt"]

_ORDER: tuple[Verdict, ...] = get_args(Verdict)
_VERDICTS: dict[str, Verdict] = {verdict: verdict for verdict in _ORDER}
_SPELLINGS: dict[str, Verdict] = {**_VERDICTS, "continue": "allow", "stop": "halt"}
_DECISION_KEYS = ("decision", "verdict", "action")


class PolicyDecision(msgspec.Struct, frozen=True, kw_only=True):
    """
    A decision of the policy, understood.

    Attributes:
        extra: What else the policy wants in the answer, as it is.
        fault: The policy could not be followed; `verdict` is then ``block``.
    """

    verdict: Verdict
    reason: str = ""
    extra: Mapping[str, Any] = {}
    fault: bool = False

    def approved(self) -> PolicyDecision:
        """Decide as for work that a person has approved; constraints stay."""
        verdict: Verdict = "constrain" if self.extra.get("constraints") else "allow"
        return PolicyDecision(
            verdict=verdict, reason="part of an activity that was approved", extra=self.extra
        )


def understand(said: object) -> PolicyDecision:
    """
    Understand what a policy said as a decision.

    ``None`` is ALLOW. A text is a decision. A mapping names one under ``decision``, ``verdict`` or
    ``action``; where it names several they have to agree. Everything else is a fault, and blocks.
    """
    if said is None:
        return PolicyDecision(verdict="allow")
    if isinstance(said, str):
        said = {"decision": said}
    if not isinstance(said, Mapping):
        return fault(f"the policy answered with a {type(said).__name__}")
    named = {key: said[key] for key in _DECISION_KEYS if said.get(key) is not None}
    verdicts = {_SPELLINGS.get(word(value)) for value in named.values()}
    verdict = verdicts.pop() if len(verdicts) == 1 else None
    if verdict is None:
        return fault(f"the policy's decision {named or None!r} is not one that is known")
    reason = said.get("reason")
    extra = {key: value for key, value in said.items() if key not in (*_DECISION_KEYS, "reason")}
    # A policy's own values go to the wire unchanged, so they have to be JSON. ValueError: NaN.
    json.dumps(extra, allow_nan=False)
    return PolicyDecision(verdict=verdict, reason="" if reason is None else str(reason), extra=extra)


def stricter(one: PolicyDecision, other: PolicyDecision) -> PolicyDecision:
    """Return the decision that stops more; `one` when both stop as much."""
    return other if _ORDER.index(other.verdict) > _ORDER.index(one.verdict) else one


def fault(reason: str) -> PolicyDecision:
    return PolicyDecision(verdict="block", reason=reason, fault=True)
