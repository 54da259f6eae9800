"""The declaration of an option: its field says which kind of value it holds, and where it is read from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from .kinds import Kind

_KEY = "openbox_agentrt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """
    Say of one option what its type and default do not.

    Attributes:
        kind: Reads and checks a value.
        is_base: The option is openbox_core's own, and forwarded to `OpenBoxConfig.resolve`.
        is_secret: Values appear in no message.
        variables: Names in the environment, after the prefix; none for the option's own name in capitals.
        own_prefix_only: The general prefix, which other products share, does not set it.
        none_is_a_value: None is a choice, and not the same as leaving the option out.
    """

    kind: Kind
    is_base: bool = False
    is_secret: bool = False
    variables: tuple[str, ...] = ()
    own_prefix_only: bool = False
    none_is_a_value: bool = False


def holds(kind: Kind, **more: Any) -> Mapping[str, Declared]:
    """Make the metadata of a dataclass field that is an option."""
    return {_KEY: Declared(kind=kind, **more)}


def declarations(options: type[Any]) -> dict[str, Declared]:
    """Collect the options that a dataclass declares, by name."""
    return {field.name: field.metadata[_KEY] for field in fields(options) if _KEY in field.metadata}
