"""What evidence is made of."""

from typing import Any, Protocol


class Recordable(Protocol):
    """Describe what can be recorded: a violation."""

    def to_dict(self) -> dict[str, Any]:
        """The violation as a mapping."""
