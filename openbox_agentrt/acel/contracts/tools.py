"""Register what belongs to single tools: conditions, and how a result becomes state."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from ..._plain.arguments import plain_args
from ..._values import dataclass, field
from ...fleet.errors import SessionMemoryError
from ..callbacks import fault_text, is_async
from ..memory.state import StateDraft, StateStore, StateView
from ..wording import shown
from .conditions import Check, CheckAnswer, as_checks

CommitFn = Callable[[StateStore, dict[str, Any], Any], Any]
Asked = list[tuple[Check, CheckAnswer]]


@dataclass(slots=True)
class ToolSpec:
    """The conditions and the commit function that are registered for one tool."""

    name: str
    preconditions: list[Check] = field(default_factory=list)
    postconditions: list[Check] = field(default_factory=list)
    commit: CommitFn | None = None

    @property
    def is_about_results(self) -> bool:
        """Tell whether a result is checked, or becomes state."""
        return bool(self.postconditions) or self.commit is not None

    def before(self, state: StateView, args: Mapping[str, Any]) -> Asked:
        """Ask the preconditions, each with arguments of its own, and give those that do not hold."""
        failed = []
        for check in self.preconditions:
            answer = check.ask(state, plain_args(args)) if check.takes_args else check.ask(state)
            if not answer.holds:
                failed.append((check, answer))
        return failed

    async def abefore(self, state: StateView, args: Mapping[str, Any]) -> Asked:
        """Ask the preconditions as `before` does, and wait for those that have to be awaited."""
        return _failed([(check, await check.aask(state, plain_args(args))) for check in self.preconditions])

    def after(self, state: StateView, result: Any) -> Asked:
        """Ask the postconditions, and give those that do not hold."""
        return _failed([(check, check.ask(state, result)) for check in self.postconditions])

    async def aafter(self, state: StateView, result: Any) -> Asked:
        """Ask the postconditions as `after` does, and wait for those that have to be awaited."""
        return _failed([(check, await check.aask(state, result)) for check in self.postconditions])


def tool_spec(name: str, before: Any, after: Any, commit: CommitFn | None) -> ToolSpec:
    """
    Put together what is to be registered for a tool.

    Raises:
        TypeError: A condition or the commit function is not callable.
    """
    if commit is not None and not callable(commit):
        raise TypeError(f"a commit must be callable, got {shown(commit)}")
    return ToolSpec(name, as_checks(before), as_checks(after), commit)


class Commits:
    """
    Let results become state, one after another.

    A commit function that reads and then writes sees no other in between. Async ones are not held back,
    since a lock must not be held while they wait.
    """

    def __init__(self, state: StateStore) -> None:
        self._state = state
        self._lock = threading.RLock()

    def write(self, spec: ToolSpec, args: Mapping[str, Any], result: Any) -> str | None:
        """Let the commit function write, all or nothing. Returns its fault."""
        if spec.commit is None:
            return None
        if is_async(spec.commit):
            return "an async commit was asked on the synchronous path"
        with self._lock:
            draft = StateDraft(self._state)
            try:
                spec.commit(draft, plain_args(args), result)
                draft.publish()
            except SessionMemoryError as error:
                return str(error)  # the state cannot hold it, which names the entry and no value
            except Exception as error:  # noqa: BLE001 - fail-closed: what is not known is not written
                return fault_text("the commit", error)
        return None

    async def awrite(self, spec: ToolSpec, args: Mapping[str, Any], result: Any) -> str | None:
        """Do as `write`, for a commit function that has to be awaited."""
        if spec.commit is None or not is_async(spec.commit):
            return self.write(spec, args, result)
        draft = StateDraft(self._state)
        try:
            await spec.commit(draft, plain_args(args), result)
            with self._lock:
                draft.publish()
        except SessionMemoryError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - fail-closed: what is not known is not written
            return fault_text("the commit", error)
        return None


def _failed(asked: Asked) -> Asked:
    return [(check, answer) for check, answer in asked if not answer.holds]
