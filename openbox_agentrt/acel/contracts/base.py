"""
Give every contract its text, its weight, and an automaton of its own.

A contract is a description. A session keeps what it remembers elsewhere, so one contract object can
be used by any number of sessions. Used on its own, through `on_event`, it keeps one automaton, whose
verdict stays VIOLATED once it is; a session asks call by call and does not latch.

To write a contract in Python, subclass `TemporalContract` and implement `_step`. A session copies
such an object's attributes to try a call out, so `_step` has to be quick and free of side effects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ..match.matchers import Args
from ..verdict import Mode, OnViolation, Severity, Verdict


class TemporalContract(ABC):
    """One contract over the calls of a session."""

    id: str | None = None
    description: str | None = None
    severity: Severity = "medium"
    mode: Mode = "enforce"
    remedy: str | None = None
    on_violation: OnViolation = "refuse"
    recheck: bool = False

    def __init__(self, spec: str) -> None:
        self.spec = spec
        self._verdict = Verdict.UNKNOWN

    @property
    def verdict(self) -> Verdict:
        """The verdict in the session that it was last added to, or on its own."""
        return self._verdict

    def on_event(self, tool: str, args: Args | None = None) -> Verdict:
        """Take note of a call that happened."""
        if self._verdict is not Verdict.VIOLATED:
            self._verdict = self._step(tool, args or {})
        return self._verdict

    def on_session_end(self) -> Verdict:
        """Take note that no more calls will come."""
        if self._verdict is not Verdict.VIOLATED:
            self._verdict = self._finalize()
        return self._verdict

    def reset(self) -> None:
        """Forget every call that it has seen on its own. What a session remembers stays."""
        self._verdict = Verdict.UNKNOWN
        self._reset()

    @abstractmethod
    def _step(self, tool: str, args: Args) -> Verdict: ...

    def _finalize(self) -> Verdict:
        return self._verdict

    def _reset(self) -> None:  # noqa: B027 - a subclass with nothing to forget needs none
        """Forget what a subclass remembers."""

    def _save(self) -> Any:
        """Copy what it remembers. A session takes a call back with the copy."""
        # Loaded here: a hook has no time for it, and few contracts have code of their own.
        from copy import deepcopy

        try:
            return deepcopy(self.__dict__)
        except Exception:  # noqa: BLE001 - an attribute that cannot be copied deeply is copied as it is
            return dict(self.__dict__)

    def _load(self, saved: Any) -> None:
        """Go back to what `_save` gave."""
        self.__dict__.clear()
        self.__dict__.update(saved)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.spec} :: {self.verdict.value}>"


class SessionRule:
    """
    A reason for which a session itself refuses a call. It is no contract, and is always in force.

    Args:
        spec: What has to hold, by which evidence and metrics call it.
        remedy: What to do where it does not.
        code: Its name for programs.
        says: What is the case where it does not hold; None where the fault of each breach says so.
        label: How outsiders are told about it, if not as `spec`.
        of_store: Whether it is about the store that keeps the session, and not about what was done in it.
    """

    id = None
    mode: Mode = "enforce"
    severity: Severity = "high"
    on_violation: OnViolation = "refuse"
    recheck = False
    by_person = False
    """Whether a person said so: then it holds in shadow mode as well."""

    def __init__(
        self,
        spec: str,
        remedy: str | None = None,
        *,
        code: str,
        says: str | None = None,
        label: str | None = None,
        of_store: bool = False,
    ) -> None:
        self.spec = spec
        self.remedy = remedy
        self.code = code
        self.says = says
        self.label = label
        self.of_store = of_store


ENDED = SessionRule(
    "the session has not ended", "start a new session", code="session_ended", says="the session has ended"
)
HALTED = SessionRule(
    "the session was not halted", "start a new session", code="session_halted", says="the session was halted"
)


class PersonsHalt(SessionRule):
    """A person has halted the session, and has said why."""

    by_person = True

    def __init__(self, why: str) -> None:
        remedy = "do not try again until a person has lifted the halt"
        super().__init__(
            HALTED.spec,
            remedy,
            code=HALTED.code,
            says=f"{HALTED.says}: {why}",
            label=f"{HALTED.spec}: {why}",
        )
        self.why = why


UNKNOWN_TOOL = SessionRule(
    "the tool is known to the session",
    "name the tool in a contract or in tools=",
    code="unknown_tool",
    says="the tool is not known to the session",
)
REPLACED = SessionRule(
    "the rules that judge the call are in force",
    code="rules_replaced",
    says="the rules that judge the call were replaced",
)
OFF_SCHEMA = SessionRule(
    "the call is as its tool was listed", "send it as the tool's schema says", code="call_off_schema"
)
MALFORMED = SessionRule(
    "the call has a name and a mapping of arguments",
    code="malformed_call",
    says="the call has no name, or its arguments are no mapping",
)
