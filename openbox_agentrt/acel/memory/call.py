"""A call on its way through a session, as guards and cells see it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from ..match.paths import FieldError, FieldPath, key_text

if TYPE_CHECKING:
    from ..engine.plan import Extra, Plan


class Call:
    """
    One call, judged once and settled once.

    What is rarely used is a class attribute until it is set, which keeps the common call small.

    Attributes:
        tool: Name of the tool, in NFC.
        args: The arguments that are judged; no one else holds these containers.
        step: Position in the session, counting from 1; 0 until the store has given it.
        deferred: Argument fields whose values are known only once the call has run.
        measured: Their values.
        final: The arguments that really ran, if they are not `args`.
        shown: What the trace holds in the place of the arguments, if they must not be seen there.
        conceal: Makes of the result what the trace and violations hold in its place.
        altered: Whether what the trace holds is not what was judged and returned.
        early: Whether prerequisites count before the call has run, as with acel-core's `precheck`.
        admitted: Whether the store let it through.
        memo: What was read out of the arguments.
    """

    step: int = 0
    deferred: Collection[str] = ()
    measured: Mapping[str, Any] | None = None
    final: dict[str, Any] | None = None
    shown: dict[str, Any] | None = None
    conceal: Callable[[Any], Any] | None = None
    altered: bool = False
    early: bool = False
    admitted: bool = True
    extra: Extra | None = None
    tickets: list[Any] | None = None
    memo: dict[Any, Any] | None = None

    def __init__(self, tool: str, args: dict[str, Any], plan: Plan) -> None:
        self.tool = tool
        self.args = args
        self.plan = plan

    def key(self, path: FieldPath) -> str | FieldError:
        """The value of a key, or why there is none. It is read once."""
        memo = self.memo
        if memo is None:
            memo = self.memo = {}
        if path.text not in memo:
            try:
                memo[path.text] = key_text(path.read(self.args), path.text)
            except FieldError as error:
                memo[path.text] = error
        key: str | FieldError = memo[path.text]
        return key
