"""Steps of sessions, as a log holds them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from .._plain.bounding import bounded
from .._plain.codec import plain_json
from .._plain.freezing import freeze
from .._plain.walk import Json
from .canonical import encode
from .redaction.markers import keyed_digest
from .redaction.redactor import Redactor

_STEP_ROOM: Final = 16_000
_OF_THE_USER: Final = frozenset(
    ("args", "final", "learnt", "measured", "deferred", "set", "state", "memory", "subject")
)
# Digests of what a result held: as many as a session keeps by default, with what each of them weighs. What a
# session remembers is no smaller, and comes with it only where it moves.
_LARGE_ROOM: Final = 640_000


def step_body(step: Mapping[str, Any], redactor: Redactor | None) -> bytes:
    """
    Encode a step of a session for its line.

    What contracts saw can be had back from it, see `thawed`, but for secrets and for what is beyond 16 KB.
    """
    if redactor is None:
        data = plain_json(step, encode, check_names=False)
        if data is not None and len(data) <= _STEP_ROOM:
            return data
    frozen: dict[str, Json] = {}
    for name, value in step.items():
        if name == "keys" and redactor is not None:
            # All of them, so that calls whose arguments hide nothing have equal markers for equal keys.
            frozen[name] = {key: redactor.marker(text) for key, text in value.items()}
        elif name == "mark" and redactor is not None:
            # A digest of what is hidden could be tried out. Those of two keys are told apart.
            key = redactor.key
            frozen[name] = f"{keyed_digest('', key)[-8:]} {keyed_digest(value, key)}"
        elif name not in _OF_THE_USER:
            frozen[name] = freeze(value)
        elif name == "memory" and redactor is not None and value["cells"]:
            # Values of keys stand in it, folded: no name tells which of them are secrets.
            frozen[name] = None
        else:
            room = _LARGE_ROOM if name in ("learnt", "memory") else _STEP_ROOM
            frozen[name] = bounded(freeze(value, redactor, exact=True), room)
    return encode(frozen)


def hidden_fields(contract: Mapping[str, Any], redactor: Redactor) -> Iterator[str]:
    """
    Find the fields that a contract has to see, and that are hidden in the log.

    Its decisions cannot be derived again then. A hidden key is none of these: equal values have equal
    markers, and of one whose spellings are folded there is a marker of what they have in common.

    Args:
        contract: The contract, in the form in which a log has it.
    """
    terms = contract.get("terms")
    needed: list[Any] = [*_searched(contract)]
    of_values = contract.get("template") == "max_distinct" and contract.get("fold") is not None
    if (of_values or contract.get("template") == "at_most_total") and isinstance(terms, Mapping):
        needed.append(terms.get("field"))
    for field in dict.fromkeys(needed):
        if isinstance(field, str) and any(redactor.hides(part) for part in field.split(".")):
            yield field


def _searched(part: Any) -> Iterator[str]:
    """Find the fields that patterns are searched for in."""
    if isinstance(part, list):
        if len(part) >= 4 and part[0] in ("matching", "not_matching"):
            yield part[3]
        for inner in part:
            yield from _searched(inner)
    elif isinstance(part, Mapping):
        for inner in part.values():
            yield from _searched(inner)
