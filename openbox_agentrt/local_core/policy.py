"""What a policy may say, and what Core then answers."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import msgspec

from .failures import place_of

# From the most lenient to the strictest.
Verdict = Literal["allow", "constrain", "require_approval", "block", "halt"]
History = Callable[[], list[dict[str, Any]]]
PolicyCallable = Callable[[dict[str, Any]], object]
Policy = str | os.PathLike[str] | PolicyCallable | None

logger = logging.getLogger(__name__)

_ORDER: tuple[Verdict, ...] = get_args(Verdict)
_VERDICTS: dict[str, Verdict] = {verdict: verdict for verdict in _ORDER}
_SPELLINGS: dict[str, Verdict] = {**_VERDICTS, "continue": "allow", "stop": "halt"}
_DECISION_KEYS = ("decision", "verdict", "action")


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
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


class Judge:
    """A policy that can be asked. It never raises: what cannot be followed is a BLOCK."""

    def __init__(self, ask: Callable[[dict[str, Any], History], object], *, name: str) -> None:
        self._ask = ask
        self.name = name

    def rule(self, event: dict[str, Any], history: History) -> Ruling:
        """The ruling on `event`, in a run with that history."""
        try:
            said = self._ask(event, history)
            ruling = said if isinstance(said, Ruling) else understand(said)
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything
            # Fail-closed: whatever a policy raises, the event was not allowed by it.
            logger.warning("policy %s failed on %s: %s", self.name, event.get("event_type"), place_of(error))
            return _fault(f"the policy failed ({type(error).__name__})")
        if ruling.fault:
            logger.warning("policy %s on %s: %s", self.name, event.get("event_type"), ruling.reason)
        return ruling


def load(policy: Policy) -> Judge:
    """
    The judge for a policy: a Rego file, a Python callable, or ``None`` to allow everything.

    Raises:
        PolicyError: The file is missing, is not Rego, or has no rule ``result``.
        MissingExtraError: Rego needs the extra ``local``.
    """
    if policy is None:
        return Judge(lambda event, history: None, name="local/allow-all")
    if callable(policy):
        asked = policy
        return Judge(lambda event, history: asked(event), name=f"local/{_callable_name(policy)}")
    if isinstance(policy, str | os.PathLike):
        from .rego import RegoPolicy

        rego = RegoPolicy(policy)
        return Judge(rego.ask, name=f"local/{rego.package}")
    raise TypeError(f"a policy is a path, a callable or None, not {type(policy).__name__}")


def understand(said: object) -> Ruling:
    """
    What a policy said, as a ruling.

    ``None`` is ALLOW. A text is a decision. A mapping names one under ``decision``, ``verdict`` or
    ``action``; where it names several they have to agree. Everything else is a fault, and blocks.
    """
    if said is None:
        return Ruling(verdict="allow")
    if isinstance(said, str):
        said = {"decision": said}
    if not isinstance(said, Mapping):
        return _fault(f"the policy answered with a {type(said).__name__}")
    named = {key: said[key] for key in _DECISION_KEYS if said.get(key) is not None}
    verdicts = {_SPELLINGS.get(_normal(value)) for value in named.values()}
    verdict = verdicts.pop() if len(verdicts) == 1 else None
    if verdict is None:
        return _fault(f"the policy's decision {named or None!r} is not one that is known")
    reason = said.get("reason")
    extra = {key: value for key, value in said.items() if key not in (*_DECISION_KEYS, "reason")}
    # A policy's own values go to the wire unchanged, so they have to be JSON. ValueError: NaN.
    json.dumps(extra, allow_nan=False)
    return Ruling(verdict=verdict, reason="" if reason is None else str(reason), extra=extra)


def stricter(one: Ruling, other: Ruling) -> Ruling:
    """The ruling that stops more; `one` when both stop as much."""
    return other if _ORDER.index(other.verdict) > _ORDER.index(one.verdict) else one


def _normal(value: object) -> str:
    return value.strip().lower().replace("-", "_") if isinstance(value, str) else ""


def _fault(reason: str) -> Ruling:
    return Ruling(verdict="block", reason=reason, fault=True)


def _callable_name(policy: object) -> str:
    return str(getattr(policy, "__name__", type(policy).__name__)).strip("<>")
