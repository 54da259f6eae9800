"""Conditions of contracts: when one is asked, and what has to hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .fact import Fact

if TYPE_CHECKING:
    from .runtime import Program
    from .source import Reads


class Condition:
    """
    A condition over a call and what its session knows.

    Attributes:
        text: The condition, in one line.
        form: The condition, the same however it is spaced.
        reads: What it reads.
        facts: The facts that it reads.
        program: What evaluates it.

    Raises:
        ConditionError: CEL does not understand it, or it reads what is not there.
        MissingExtraError: The CEL runtime is not installed.
    """

    __slots__ = ("facts", "form", "program", "reads", "text")

    def __init__(self, text: Any, facts: Iterable[Fact] = ()) -> None:
        # Loaded here: most contracts have no condition, and a hook is a process for each call.
        from .runtime import check, compiled
        from .source import ConditionError, read_source

        if not isinstance(text, str) or not text.strip():
            raise ConditionError(f"a condition must be text, got {text!r:.80}")
        known = {fact.name: fact for fact in facts}
        check(text)
        self.reads: Reads = read_source(text, known)
        self.text, self.form = self.reads.line, self.reads.form
        self.facts = tuple(known[name] for name in sorted(self.reads.facts))
        self.program: Program = compiled(self.reads.rewritten)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Condition) and (self.form, self.facts) == (other.form, other.facts)

    def __hash__(self) -> int:
        return hash((self.form, self.facts))

    def __repr__(self) -> str:
        return f"Condition({self.text!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # What was compiled is of this process.
        return Condition, (self.form, self.facts)
