"""A call as guards and cells see it: its arguments, its place in the session, and what was read out of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..match.keys import NOBODY, About, Key
from ..match.paths import FieldError


class JudgedCall:
    """
    One call that is judged once and settled once.

    What is rarely used is a class attribute until it is set, which keeps the common call small and quick.

    Attributes:
        tool: Name of the tool, in NFC.
        args: The arguments that are judged; no one else holds these containers.
        step: Position in the session, counting from 1; 0 until the store has given it.
        deferred: Argument fields whose values are known only once the call has run; a mapping says what each
            is taken for until then.
        measured: Their values.
        final: The arguments that really ran, if they are not `args`.
        learnt: What memory has read out of the call once it succeeded, by the name of that memory.
        about: Whose call it is.
        late: Whether it is looked at only because it ran as something else than was judged.
        memo: What was read out of the arguments.
    """

    __slots__ = ("__dict__", "__weakref__", "args", "deferred", "memo", "step", "tool")

    measured: Mapping[str, Any] | None = None
    final: dict[str, Any] | None = None
    learnt: Mapping[str, Any] | None = None
    about: About = NOBODY
    late: bool = False

    def __init__(self, tool: str, args: dict[str, Any]) -> None:
        self.tool = tool
        self.args = args
        self.step = 0
        self.deferred: Collection[str] = ()
        self.memo: dict[Any, Any] | None = None

    def as_judged(self) -> JudgedCall:
        """Give the call as if what was judged had run."""
        judged = JudgedCall(self.tool, self.args)
        judged.step, judged.deferred, judged.measured = self.step, self.deferred, self.measured
        judged.about = self.about
        return judged

    def key(self, key: Key) -> str | FieldError:
        """Read the value of a key, or say why there is none. It is read once."""
        memo = self.memo
        if memo is None:
            memo = self.memo = {}
        if key.text not in memo:
            try:
                memo[key.text] = key.read(self.tool, self.args, self.about)
            except FieldError as error:
                memo[key.text] = error.kept()
        value: str | FieldError = memo[key.text]
        return value
