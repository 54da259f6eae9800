"""
Carry what was redacted in a run to another process, in its checkpoint.

A checkpoint holds the messages as they were said. Beside them go the texts that were put in the place of
others, each under a keyed hash of what it stands for: whoever has the messages finds by these what to
replace. The key stays in the store of the fleet, so to a model, or to a log, the hashes tell nothing. The
store in turn holds no text: only the key, and a hash of all that is carried, so that nobody changes it on the
way.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..._plain.digest import text_digest
from ..._plain.same import same_text
from ..._wire.model_input import message_elements
from ...message_extraction import message_text
from ..told_input import Told

if TYPE_CHECKING:
    from .redactions import Redactions

Carried = Mapping[str, Any]
"""`redacted`: what stands for what, by keyed hashes; `inputs`: for each row, what was judged and is used."""

_MOST_VALUES: Final = 100_000


class CarriedInput(NamedTuple):
    """
    Hold the input of a call that waits, as far as it is another one than before.

    Attributes:
        judged: What contracts have judged, if not what the model asks for.
        used: What is used, if not what they judged.
    """

    judged: Told | None
    used: Mapping[str, Any] | None


def carry(
    redactions: Redactions, messages: Sequence[Any], inputs: Mapping[str, CarriedInput], key: str
) -> Carried:
    """
    Write down what was redacted of what stands in `messages`.

    Args:
        redactions: What was redacted in the conversation. What stands nowhere in `messages` is left out.
        messages: The messages of the checkpoint.
        inputs: The input of each call that waits, by its row.
        key: The key of the hashes.

    Raises:
        ValueError: Something in it is no JSON.
    """
    redacted = redactions.told(_values_in(messages), _naming(key))
    try:
        carried: Carried = json.loads(json.dumps({"redacted": redacted, "inputs": inputs}, allow_nan=False))
    except (TypeError, RecursionError) as error:
        raise ValueError("what was redacted is no JSON") from error
    return carried


def relearn(redactions: Redactions, messages: Sequence[Any], carried: Carried, key: str) -> None:
    """
    Remember what `carry` has written down, for the same messages.

    Raises:
        GovernanceUnavailableError: The conversation has more redactions than are kept.
    """
    redactions.learn_told(_values_in(messages), carried["redacted"], _naming(key))


def input_of(carried: Carried | None, row: str) -> CarriedInput | None:
    """Give the input of a call that waits, if it is carried."""
    found = None if carried is None else carried["inputs"].get(row)
    return None if found is None else CarriedInput(*found)


def carried_digest(carried: object) -> str | None:
    """Give a hash of what is carried; None where nothing is."""
    return None if carried is None else text_digest(same_text(carried))


def _naming(key: str) -> Any:
    secret = bytes.fromhex(key)

    def name(text: str) -> str:
        return blake2b(text.encode("utf-8", "surrogatepass"), key=secret, digest_size=16).hexdigest()

    return name


def _values_in(messages: Sequence[Any]) -> Iterator[Any]:
    """Give every text, number and container that messages are made of, as they may have been judged."""
    values: list[Any] = []
    for message in messages:
        values += (message_text(message), message_elements((message,)))
    seen = 0
    while values and seen < _MOST_VALUES:
        value = values.pop()
        seen += 1
        yield value
        if isinstance(value, Mapping):
            values += (*value.keys(), *value.values())
        elif isinstance(value, list | tuple):
            values += value
