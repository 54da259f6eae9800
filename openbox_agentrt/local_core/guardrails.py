"""Personal data in what goes to a model, and in what comes out of models and tools."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from agent_rt import PIIMorpher

Guardrails = Callable[[dict[str, Any]], Mapping[str, Any] | None]
"""Gets an event, and returns a ``guardrails_result`` or ``None``."""

# Blanks, dots, dashes of all lengths and what nobody sees; Agent-RT's morpher knows a few of them.
_BETWEEN: Final = r"[\s.\u00ad\u200b-\u200d\u2010-\u2015\u2060\u2212\ufe58\ufe63\uff0d\ufeff-]"
_NUMBERS: Final = (
    # A social security number has no group of zeros, and begins with neither 666 nor 9.
    (
        re.compile(
            rf"(?<!\d)(?!000|666|9)(\d{{3}}){_BETWEEN}{{1,3}}(?!00)(\d\d){_BETWEEN}{{1,3}}(?!0000)(\d{{4}})(?!\d)"
        ),
        "-",
    ),
    (re.compile(rf"(?<!\d)(\d{{3}}){_BETWEEN}{{1,3}}(\d{{3}}){_BETWEEN}{{1,3}}(\d{{4}})(?!\d)"), "-"),
    (re.compile(rf"(?<!\d)\d(?:{_BETWEEN}{{0,3}}\d){{12,18}}(?!\d)"), ""),
)

MAX_MADE_UP: Final = 100_000
"""How many made-up values are known again. A forgotten one is replaced by another when it comes back."""

_made_up: OrderedDict[str, None] = OrderedDict()

_FIELDS = {"ActivityStarted": "activity_input", "ActivityCompleted": "activity_output"}


def detector(wanted: bool | Literal["everything"] | Guardrails) -> Guardrails | None:
    """
    Make the guardrails that are wanted; see `LocalCore`.

    Raises:
        ValueError: They are none of these.
    """
    if callable(wanted):
        return wanted
    if wanted not in (True, False, "everything"):
        raise ValueError(f"guardrails are True, False, 'everything' or a callable, not {wanted!r}")
    return partial(find_personal_data, in_arguments=wanted == "everything") if wanted else None


def find_personal_data(event: Mapping[str, Any], *, in_arguments: bool = False) -> dict[str, Any] | None:
    """
    Detect and replace personal data in prompts and outputs.

    That is: e-mail addresses, phone, social security and card numbers with whatever separators, IP addresses,
    and values whose field name says what they are.

    The detector is Agent-RT's ``PIIMorpher``. The replacement of a value is always the same made-up
    value of the same kind, so that what belongs together still does; it is not replaced in its turn when it
    comes back.

    Args:
        in_arguments: Look at the arguments of tools as well: a tool then gets the made-up values.

    Returns:
        A ``guardrails_result`` whose ``redacted_input`` mirrors the field it was made from, or ``None``
        when nothing was found. Names in free text are not detected.
    """
    field = _FIELDS.get(str(event.get("event_type")))
    if field is None or event.get(field) is None:
        return None
    if field == "activity_input" and event.get("activity_type") != "llm_call" and not in_arguments:
        return None
    morpher = _morpher()()
    redacted = morpher.morph(_spelled(event[field], morpher.morph_text))
    if redacted == event[field]:
        return None
    reasons = _differences(event[field], redacted, field)
    return {
        "input_type": field,
        "redacted_input": redacted,
        "validation_passed": True,
        "reasons": [
            {"type": "personal_data", "field": place, "reason": "personal data replaced"} for place in reasons
        ],
    }


@cache
def _morpher() -> Callable[[], PIIMorpher]:
    from agent_rt import PIIMorpher

    class OnceMorpher(PIIMorpher):
        """Leave what was made up before."""

        def __init__(self) -> None:
            # An empty environment: a variable that switches Agent-RT's own morpher off is not about this one.
            super().__init__(environ={})

        def morph_pii(self, original: str, kind: str) -> str:
            if original in _made_up:
                return original
            replacement = super().morph_pii(original, kind)
            _made_up[replacement] = None
            while len(_made_up) > MAX_MADE_UP:
                _made_up.popitem(last=False)
            return replacement

    return OnceMorpher


def _spelled(value: Any, morph: Callable[[str], str]) -> Any:
    """Give JSON data with people's numbers as the morpher knows them, whatever separates their groups."""
    if isinstance(value, Mapping):
        return {key: _spelled(item, morph) for key, item in value.items()}
    if isinstance(value, list):
        return [_spelled(item, morph) for item in value]
    if isinstance(value, str):
        for pattern, joint in _NUMBERS:
            value = pattern.sub(partial(_spell, joint=joint, morph=morph), value)
    return value


def _spell(match: re.Match[str], *, joint: str, morph: Callable[[str], str]) -> str:
    number = joint.join(match.groups() or (re.sub(r"\D", "", match[0]),))
    # What the morpher takes for no such number stays as it was written.
    return match[0] if morph(number) == number else number


def _differences(before: Any, after: Any, place: str) -> list[str]:
    if isinstance(before, Mapping):
        return [
            where
            for key, value in before.items()
            for where in _differences(value, after[key], f"{place}.{key}")
        ]
    if isinstance(before, list):
        return [
            where
            for index, value in enumerate(before)
            for where in _differences(value, after[index], f"{place}[{index}]")
        ]
    return [place] if before != after else []
