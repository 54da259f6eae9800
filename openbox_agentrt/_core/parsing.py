"""
Core's answers, read strictly.

openbox_core reads leniently: a verdict that it does not know, an empty object and a verdict with a blank
around it are ALLOW to it, and a list is an `AttributeError`. So the JSON is read again here, once, from the
closed vocabulary. An answer that is not understood counts as what the options say, never as ALLOW; what
*is* understood and stricter - a HALT beside an unreadable guardrail - is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from itertools import product
from typing import Any, Final, Literal

import msgspec
from msgspec import structs
from openbox_core.contracts.results import (
    ApprovalResult,
    EvaluationResult,
    PatchDirective,
    Verdict,
    handle_patch,
)

from .._plain.strict_json import JsonError, read_json
from .._plain.words import word
from .._wire.payloads import safe_text
from ..decision import MISSING, Answer, Guardrails

UnknownVerdict = Literal["block", "halt"]

WORDS: Final[Mapping[str, Verdict]] = {
    "allow": Verdict.ALLOW,
    "continue": Verdict.ALLOW,
    "constrain": Verdict.CONSTRAIN,
    "require_approval": Verdict.REQUIRE_APPROVAL,
    "request_approval": Verdict.REQUIRE_APPROVAL,
    "block": Verdict.BLOCK,
    "halt": Verdict.HALT,
    "stop": Verdict.HALT,
}
_SHOWN: Final = 60


SANDBOX: Final = "run_in_sandbox"
"""The constraint that must not be passed over, also when it is spelled another way."""


class _NotUnderstoodError(Exception):
    """Part of an answer is outside the vocabulary; the message says which."""


def decoded(body: bytes) -> object:
    """
    Decode the one JSON document that `body` is.

    Raises:
        JsonError: It is none, repeats a key, or is nested too deeply.
    """
    try:
        value = _DECODER.decode(body)
        if type(value) not in _CONTAINERS:
            return value
        # Every key has its colon: with as many of the one as of the other, no key was written twice.
        colons = body.count(b":")
        if (type(value) is dict and len(value) == colons) or _keys(value) == colons:
            return value
    except (ValueError, RecursionError):
        # Not for this reader, which does not know NaN. The other one says what it is.
        pass
    return read_json(body, finite=False)


def _keys(value: Any) -> int:
    count, inside = (len(value), value.values()) if type(value) is dict else (0, value)
    for item in inside:
        if type(item) in _CONTAINERS:
            count += _keys(item)
    return count


def read_answer(body: bytes, *, on_unknown: UnknownVerdict = "block") -> Answer:
    """Read the answer in `body`, as `parse_answer` does. One that is no JSON document is not understood."""
    try:
        raw = _DECODER.decode(body)
        # Most answers: nothing in them can make it stricter, and no key was written twice.
        if (
            type(raw) is dict
            and len(raw) == body.count(b":")
            and raw.keys() <= _PLAIN
            and (raw.get("verdict"), raw.get("action")) in _ALLOWS
        ):
            return Answer(
                verdict=_ALLOW,
                reason=None if (said := raw.get("reason")) is None else _text(said),
                policy_id=None if (said := raw.get("policy_id")) is None else _text(said),
                governance_event_id=None if (said := raw.get("governance_event_id")) is None else _text(said),
                raw=raw,
            )
    except (ValueError, RecursionError):
        # The careful reader says what it is.
        pass
    try:
        return parse_answer(decoded(body), on_unknown=on_unknown)
    except JsonError as error:
        return not_understood(f"it is not one JSON document: {error}", on_unknown)


def parse_answer(raw: object, *, on_unknown: UnknownVerdict = "block") -> Answer:
    """
    The answer in `raw`, the decoded JSON body.

    Args:
        on_unknown: What an answer that is not understood counts as.
    """
    if not isinstance(raw, dict):
        return not_understood(f"a JSON {_kind(raw)} is not an answer", on_unknown)
    problems: list[str] = []
    verdict = _tried(_verdict, raw, problems, default=None)
    guardrails = _tried(_guardrails, raw, problems, default=None)
    constraints = _tried(_constraints, raw, problems, default=())
    if verdict is Verdict.ALLOW and constraints:
        verdict = Verdict.CONSTRAIN
    answer = Answer(
        verdict=Verdict.BLOCK if verdict is None else verdict,
        reason=_text(raw.get("reason")),
        policy_id=_text(raw.get("policy_id")),
        governance_event_id=_text(raw.get("governance_event_id")),
        risk_score=_number(raw.get("risk_score")),
        trust_tier=_text(raw.get("trust_tier")),
        constraints=constraints,
        patch=_patch(raw) if verdict is Verdict.BLOCK else None,
        approval_id=_text(raw.get("approval_id")),
        approval_expires_at=parse_time(raw.get("approval_expiration_time")),
        guardrails=guardrails,
        raw=raw,
    )
    if not problems or (verdict is not None and verdict.should_stop()):
        return answer
    ours = not_understood("; ".join(problems), on_unknown)
    return structs.replace(answer, verdict=ours.verdict, reason=ours.reason, patch=None, local=True)


def not_understood(problem: str, on_unknown: UnknownVerdict) -> Answer:
    """Make the answer that counts where `problem` keeps Core's from being understood."""
    verdict = Verdict.HALT if on_unknown == "halt" else Verdict.BLOCK
    reason = f"core's answer was not understood: {problem}"
    return Answer(verdict=verdict, reason=reason, local=True)


def parse_time(value: object) -> datetime | None:
    """
    A time of the wire, or None when there is none.

    Go writes ``0001-01-01T00:00:00Z`` for a time that was never set.
    """
    if not isinstance(value, str) or not value.strip():
        return None
    text = value.strip().replace(" ", "T", 1)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return None if moment.year == 1 else moment.astimezone(UTC)


def _tried(read: Any, raw: Mapping[str, Any], problems: list[str], *, default: Any) -> Any:
    try:
        return read(raw)
    except _NotUnderstoodError as error:
        problems.append(str(error))
        return default


def _verdict(raw: Mapping[str, Any]) -> Verdict:
    found = []
    unknown: list[str] = []
    for name in ("verdict", "action"):
        value = raw.get(name)
        if value is None or (isinstance(value, str) and not value.strip()):
            continue  # older Cores fill in only one of the two
        said = WORDS.get(word(value))
        if said is None:
            unknown.append(f"{name} {_shown(value)}")
        else:
            found.append(said)
    strictest = Verdict.highest_priority(found) if found else None
    if strictest is not None and (not unknown or strictest.should_stop()):
        return strictest
    raise _NotUnderstoodError(", ".join(unknown) if unknown else "it has no verdict")


def _guardrails(raw: Mapping[str, Any]) -> Guardrails | None:
    found = [raw[name] for name in ("guardrails_result", "guardrails") if raw.get(name) not in (None, {})]
    if not found:
        return None
    for value in found:
        if not isinstance(value, Mapping):
            raise _NotUnderstoodError(f"its guardrails are a JSON {_kind(value)}")
    # Where it says two things, the one that did not pass counts.
    value = next((one for one in found if not _passed(one)), found[0])
    redacted = value.get("redacted_input")
    return Guardrails(
        validation_passed=_passed(value),
        reasons=_reasons(value.get("reasons")),
        redacted_input=MISSING if redacted is None else redacted,
        input_type=_text(value.get("input_type")) or "",
    )


def _passed(guardrails: Mapping[str, Any]) -> bool:
    # Reasons are those of a no. Without any, what does not speak of validation only redacts.
    # Reasons in an unknown form are some all the same.
    value = guardrails.get("validation_passed", not guardrails.get("reasons"))
    # Anything but a clear yes is a no: null, 1 and "ok" say nothing about what was checked.
    return value is True or (isinstance(value, str) and value.strip().lower() == "true")


def _reasons(value: object) -> tuple[str, ...]:
    items = value if isinstance(value, list) else [value]
    texts = (item.get("reason") if isinstance(item, Mapping) else item for item in items)
    return tuple(safe_text(text) for text in texts if isinstance(text, str) and text.strip())


def _constraints(raw: Mapping[str, Any]) -> tuple[str, ...]:
    value = raw.get("constraints")
    if not value:
        return ()
    if not isinstance(value, list):
        raise _NotUnderstoodError(f"its constraints are a JSON {_kind(value)}")
    return tuple(dict.fromkeys(name for item in value for name in _constraint(item)))


def _constraint(item: object) -> list[str]:
    names = (
        [item[key] for key in ("name", "type", "constraint") if key in item]
        if isinstance(item, Mapping)
        else [item]
    )
    if not names:
        raise _NotUnderstoodError(f"constraint {_shown(item)}")
    found = []
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise _NotUnderstoodError(f"constraint {_shown(item)}")
        found.append(SANDBOX if word(name) == SANDBOX else name.strip())
    # What names the sandbox anywhere means it; otherwise the first name is the one.
    return [SANDBOX] if SANDBOX in found else found[:1]


def _patch(raw: Mapping[str, Any]) -> PatchDirective | None:
    kept = {key: raw[key] for key in ("patch", "reason", "governance_event_id") if key in raw}
    return patch_in({"verdict": "block", **kept}, EvaluationResult.from_dict)


def patch_in(
    raw: dict[str, Any], read: Callable[[dict[str, Any]], EvaluationResult | ApprovalResult]
) -> PatchDirective | None:
    """The patch that openbox_core finds in a BLOCK or a no, once it has `read` it; None if it cannot."""
    try:
        return handle_patch(read(raw))
    except Exception:  # noqa: BLE001
        # Such as one that is nested too deeply. The call is stopped all the same, without a patch.
        return None


def _text(value: object) -> str | None:
    if isinstance(value, str):
        if not value.strip():
            return None
        # In whole characters: it becomes the message of an error, which somebody prints.
        return value if value.isascii() else safe_text(value)
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "text"
        case int() | float():
            return "number"
        case list():
            return "list"
    return "object"


def _shown(value: object) -> str:
    if isinstance(value, str):
        return repr(value if len(value) <= _SHOWN else f"{value[:_SHOWN]}...")
    return f"of JSON type {_kind(value)}"


# Python 3.11 takes as long as for a call to find a member of an enum.
_ALLOW: Final = Verdict.ALLOW
_PLAIN: Final = frozenset({"verdict", "action", "reason", "policy_id", "governance_event_id"})
_YES: Final = [said for said, verdict in WORDS.items() if verdict is Verdict.ALLOW]
_ALLOWS: Final = tuple(product(_YES, _YES))
"""Verdict and action of an ALLOW, where both say so in the very words of the vocabulary."""

_CONTAINERS: Final = (dict, list)
_DECODER: Final = msgspec.json.Decoder()
