"""Policies in Rego."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ..policy import PolicyDecision, fault, stricter, understand
from .engine import SESSION_KEY, UNDEFINED, Failure, RegoEngine, ambiguous
from .source import PolicyError, read_source

_SESSION_EVENTS = 200
_COMMON = {"workflow_id": "wf", "run_id": "run", "workflow_type": "Agent"}
_ACTIVITY = {**_COMMON, "activity_id": "a", "activity_type": "llm_call"}
_SAMPLES: tuple[dict[str, Any], ...] = (
    {**_COMMON, "event_type": "WorkflowStarted"},
    {**_COMMON, "event_type": "SignalReceived", "signal_name": "user_prompt", "signal_args": ["hello"]},
    {**_ACTIVITY, "event_type": "ActivityStarted", "activity_input": [{"prompt": "hello"}]},
    {**_ACTIVITY, "event_type": "ActivityCompleted", "activity_output": {"completion": "hello"}},
    {**_COMMON, "event_type": "WorkflowCompleted", "status": "completed"},
)


class RegoPolicy:
    """
    A Rego file whose rule ``result`` decides.

    ``input`` is the event, ``data.session.events`` are the latest 200 events of the run before it. A rule
    that fails on an event, or says nothing about it, blocks it.

    Raises:
        PolicyError: The file cannot be used; names the file and, where there is one, the line.
        MissingExtraError: The extra ``local`` is not installed.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        source = read_source(path)
        self.package = source.package
        self._uses_session = source.uses_session
        self._engine = RegoEngine(source)
        for sample in _SAMPLES:
            # Functions that do not exist, recursion and expressions that regopy cannot read show only
            # when they are evaluated.
            value = self._engine.evaluate(self._input(sample, list), "escaped")
            if isinstance(value, Failure):
                problem = f"fails on {sample['event_type']}: {value.message}"
                raise PolicyError(path=source.path, line=None, problem=problem)

    def ask(self, event: dict[str, Any], history: Callable[[], list[dict[str, Any]]]) -> PolicyDecision:
        """
        Decide about `event`.

        Where the readings of the input differ, both are judged and the stricter decision counts: a text
        must not get past a rule because of how its line breaks or quotes are written.
        """
        given = self._input(event, history)
        decision = self._judge(given, plain=False)
        if not ambiguous(given):
            return decision
        return stricter(decision, self._judge(given, plain=True))

    def _judge(self, given: dict[str, Any], *, plain: bool) -> PolicyDecision:
        value = self._engine.evaluate(given, "plain" if plain else "escaped")
        if isinstance(value, Failure):
            return fault(f"the policy failed: {value.message}")
        if value is UNDEFINED:
            return PolicyDecision(
                verdict="block", reason="the policy says nothing about this event", fault=True
            )
        return understand(value)

    def _input(self, event: dict[str, Any], history: Callable[[], list[dict[str, Any]]]) -> dict[str, Any]:
        if not self._uses_session:
            return event
        return {**event, SESSION_KEY: history()[-_SESSION_EVENTS:]}
