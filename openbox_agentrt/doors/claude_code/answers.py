"""
Contracts for the tool calls of Claude Code, through its hooks.

Claude Code starts a process for each event and reads its answer from standard output, standard error and
the exit code. `at_prompt`, `before_tool`, `after_tool` and `at_end` give that answer for what came in on
standard input; they never raise. A call that may run is answered with nothing at all: "allow" would skip the
user's own permission prompt.

Exit codes: 0 with what standard output says; 2 for a fault, which blocks the call - fail-closed; 1 at the
end of a session that owes something, where nothing can be blocked any more.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import wraps

from openbox_agentrt._values import dataclass
from openbox_agentrt.doors.claude_code.event import (
    CALL_EVENTS,
    END_EVENTS,
    POST_EVENTS,
    PROMPT_EVENT,
    HookEvent,
    read_event,
)
from openbox_agentrt.doors.claude_code.folder import LOCK_WAIT_SECONDS, HookFault
from openbox_agentrt.doors.claude_code.history import end_call, read_history
from openbox_agentrt.doors.claude_code.log import SessionLog, open_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    from openbox_agentrt.acel import Violation
    from openbox_agentrt.doors.claude_code.history import History
    from openbox_agentrt.doors.claude_code.judgement import OnRulesChange, Ruling
    from openbox_agentrt.doors.claude_code.rules import HookRules

    _Handle = Callable[[bytes, "HookSettings"], "HookAnswer"]


@dataclass(slots=True, kw_only=True)
class HookSettings:
    """
    Say how the hooks of one configuration work.

    Attributes:
        rules: Rules file. The hook after a call needs none, but to put its faults into the evidence.
        state_dir: Folder of the session files. A relative one is taken from the project's folder, wherever
            the client's shell is at the moment.
        project_dir: The project's folder, or None for the working directory.
        evidence_dir: Folder of the evidence, one file per session; the state folder if None.
        key: Ed25519 key file that signs the evidence, or None.
        record: What goes into the evidence: "violations", or at the end of the session also all of its
            "steps", from which each decision can be derived again.
        redact_fields: Names of arguments that the evidence shows as markers only. With one, or with a key,
            what looks like a key or a token is hidden as well.
        redaction_key: File of the key of these markers, or None.
        on_rules_change: What to do if the rules are not those that the session began under: "deny", or
            "replay" to go on by the new ones.
        fleet: URL of the store that contracts with scope "fleet" count in, or None.
        clock: Seconds since the epoch.
    """

    rules: str | None = None
    state_dir: str | None = None
    project_dir: str | None = None
    evidence_dir: str | None = None
    key: str | None = None
    record: Literal["violations", "steps"] = "violations"
    redact_fields: Sequence[str] = ()
    redaction_key: str | None = None
    on_rules_change: OnRulesChange = "deny"
    fleet: str | None = None
    clock: Callable[[], float] = time.time

    @property
    def state_folder(self) -> str:
        """Name the folder of the session files; a relative one is still to be taken from the project's."""
        return default_state_dir() if self.state_dir is None else self.state_dir

    @property
    def evidence_folder(self) -> str:
        """Name the folder of the evidence."""
        folder = os.path.expanduser(self.evidence_dir or self.state_folder)
        return os.path.join(self.project_dir or "", folder)

    def open_log(
        self, event: HookEvent, *, wait_seconds: float = LOCK_WAIT_SECONDS
    ) -> AbstractContextManager[SessionLog]:
        """Open the log of the session of an event, and lock it."""
        where, project = self.state_folder, self.project_dir
        return open_log(where, event.session_id, project_dir=project, wait_seconds=wait_seconds)

    def read_rules(self, log: SessionLog) -> HookRules:
        """
        Read the rules, or what is kept beside the log of how they were understood before.

        Raises:
            HookFault: There are none, or they cannot be used.
        """
        from openbox_agentrt.doors.claude_code.rules import load_hook_rules

        if self.rules is None:
            raise HookFault("no rules file is given", remedy="--rules FILE")
        return load_hook_rules(self.rules, log.folder)


def default_state_dir() -> str:
    """Name a folder outside of any project, so that no tool that works in a project comes across it."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(home, "openbox-agentrt", "hooks")


@dataclass(slots=True, kw_only=True)
class HookAnswer:
    """
    Hold what the process of a hook answers with.

    Attributes:
        code: Exit code.
        stdout: One JSON object, or nothing.
        stderr: One line, or nothing.
    """

    code: int = 0
    stdout: str = ""
    stderr: str = ""


def _failing_closed(events: Collection[str] = ()) -> Callable[[_Handle], _Handle]:
    """Have a hook answer any fault by blocking the call. That of a hook for `events` is evidence."""

    def decorated(handle: _Handle) -> _Handle:
        @wraps(handle)
        def answer(data: bytes, settings: HookSettings) -> HookAnswer:
            try:
                return handle(data, settings)
            except Exception as error:  # noqa: BLE001 - fail-closed: any other exit code would let the call run
                trouble = _keep_unjudged(data, settings, error, events) if events else ""
                return HookAnswer(code=2, stderr=fault_line(error) + trouble)

        return answer

    return decorated


@_failing_closed(CALL_EVENTS)
def at_prompt(data: bytes, settings: HookSettings) -> HookAnswer:
    """
    Answer a ``UserPromptSubmit`` event: take note of what the user says, which values may come from.

    A prompt that a contract refuses is not given to the model, and the user reads why.
    """
    event = read_event(data, expected=(PROMPT_EVENT,))
    lease = None
    with settings.open_log(event) as log:
        is_new = log.is_blank
        ruling, trouble = _begin(log, event, settings)
        if ruling.reason is None:
            # What the user says has happened once it is let through.
            lease = end_call(log, event, now=settings.clock())
    _finish(lease, settings, "commit")
    trouble = trouble or _end_others(settings, event, due=is_new)
    if ruling.reason is None:
        return HookAnswer(stderr=trouble)
    return HookAnswer(stdout=json.dumps({"decision": "block", "reason": ruling.reason}), stderr=trouble)


@_failing_closed(CALL_EVENTS)
def before_tool(data: bytes, settings: HookSettings) -> HookAnswer:
    """Answer a ``PreToolUse`` event: deny the call with the reason, or say nothing."""
    event = read_event(data, expected=("PreToolUse",))
    with settings.open_log(event) as log:
        is_new = log.is_blank
        ruling, trouble = _begin(log, event, settings)
    trouble = trouble or _end_others(settings, event, due=is_new)
    if ruling.reason is None:
        return HookAnswer(stderr=trouble)
    return HookAnswer(stdout=json.dumps(deny_output(ruling.reason)), stderr=trouble)


def _begin(log: SessionLog, event: HookEvent, settings: HookSettings) -> tuple[Ruling, str]:
    # Here, because the hook after a call needs no engine and each hook is a process that starts.
    from openbox_agentrt.doors.claude_code.judgement import begin_call

    rules = settings.read_rules(log)
    ruling = begin_call(
        log,
        event,
        rules,
        now=settings.clock(),
        on_rules_change=settings.on_rules_change,
        fleet=settings.fleet,
        keeps_refused=settings.record == "steps",
    )
    return ruling, _record(event, settings, ruling.violations, rules.rules_hash)


@_failing_closed(POST_EVENTS)
def after_tool(data: bytes, settings: HookSettings) -> HookAnswer:
    """Take note of ``PostToolUse``, ``PostToolUseFailure`` or ``PermissionDenied``."""
    event = read_event(data, expected=POST_EVENTS)
    with settings.open_log(event) as log:
        lease = end_call(log, event, now=settings.clock())
    _finish(lease, settings, "commit" if event.ok else "fail" if event.ran else "undo")
    return HookAnswer()


def _finish(
    lease: Mapping[str, Any] | None, settings: HookSettings, how: Literal["commit", "fail", "undo"]
) -> None:
    if lease is not None:
        from openbox_agentrt.doors.claude_code.fleet import finish_in_fleet

        finish_in_fleet(lease, settings.fleet, how)


@_failing_closed(END_EVENTS)
def at_end(data: bytes, settings: HookSettings) -> HookAnswer:
    """
    Answer ``Stop`` and ``SessionEnd``: settle what the session owes.

    At ``Stop``, the client is sent back to do what is missing, once per turn. At ``SessionEnd`` it is
    recorded.
    """
    event = read_event(data, expected=END_EVENTS)
    final = event.name == "SessionEnd"
    try:
        violations, trouble = _end_session(event, settings, settings.on_rules_change, final=final)
    except HookFault as fault:
        if event.repeated_stop:
            # Blocking again would keep the client from ever stopping. The user is told.
            trouble = _keep_unjudged(data, settings, fault, END_EVENTS)
            return HookAnswer(code=1, stderr=fault_line(fault) + trouble)
        raise
    trouble = trouble or _end_others(settings, event, due=final)
    owed = [violation for violation in violations if violation.mode == "enforce"]
    if not owed:
        return HookAnswer(stderr=trouble)
    message = f"the session still owes {'; '.join(_debt(violation) for violation in owed)}"
    if final or event.repeated_stop:
        return HookAnswer(code=1, stderr="; ".join(filter(None, (message, trouble))))
    return HookAnswer(stdout=json.dumps({"decision": "block", "reason": message}))


@_failing_closed()
def at_idle(data: bytes, settings: HookSettings) -> HookAnswer:
    """End all sessions that gave no sign of life for a day. `data` is not looked at."""
    return HookAnswer(stderr=_end_idle(settings, most=1_000))


def _end_session(
    event: HookEvent, settings: HookSettings, on_rules_change: OnRulesChange, *, final: bool
) -> tuple[list[Violation], str]:
    from openbox_agentrt.doors.claude_code.judgement import unmet_obligations

    with settings.open_log(event) as log:
        rules = settings.read_rules(log)
        # Before the end is written down, which is no step.
        keeps_steps = final and settings.record == "steps"
        history = read_history(log, event.session_id, whole=True) if keeps_steps else None
        violations, late = unmet_obligations(
            log,
            event,
            rules,
            now=settings.clock(),
            on_rules_change=on_rules_change,
            final=final,
        )
        steps = None if history is None else (history, rules)
        trouble = ""
        if final:
            found = [*late, *violations]
            trouble = _record(event, settings, found, rules.rules_hash, steps, always=True)
    return violations, trouble


def _end_others(settings: HookSettings, event: HookEvent, *, due: bool) -> str:
    """End a few sessions that died, when one begins or ends; say what is wrong with them."""
    if settings.record != "steps" or not due:
        return ""
    try:
        return _end_idle(settings, but=event.session_id, most=2)
    except (HookFault, OSError) as fault:
        # Fail-open: it is about other sessions, which are looked at again with the next one. It is told.
        return fault_line(fault)


def _end_idle(settings: HookSettings, *, but: str = "", most: int) -> str:
    from openbox_agentrt.doors.claude_code.idle_sessions import end_idle_sessions

    told = []

    def end(event: HookEvent) -> bool:
        try:
            # One that ran by other rules may be another project's, and is ended by nobody else's.
            told.append(_end_session(event, settings, "deny", final=True)[1])
        except HookFault as fault:
            told.append(fault_line(fault))
            return False
        return True

    where, project = settings.state_folder, settings.project_dir
    end_idle_sessions(where, end, now=settings.clock(), project_dir=project, but=but, most=most)
    return "; ".join(filter(None, told))


def _keep_unjudged(data: bytes, settings: HookSettings, error: Exception, events: Collection[str]) -> str:
    """Put what a fault has refused or missed into its session's evidence, and say why if that fails."""
    try:
        from openbox_agentrt.doors.claude_code.unjudged import unjudged_event

        # The hooks of one project, which write with one key.
        nameless = f"(unnamed, by {os.path.join(settings.project_dir or '', settings.rules or '')})"
        if (found := unjudged_event(data, error, expected=events, nameless=nameless)) is None:
            return ""
        event, violations = found
        with settings.open_log(event, wait_seconds=1.0) as log:
            trouble = _record(event, settings, violations, settings.read_rules(log).rules_hash)
        return trouble and f"; {trouble}"
    except Exception as fault:  # noqa: BLE001 - fail-closed: it is refused, whatever becomes of its record
        why = "" if str(fault) == str(error) else f": {fault_line(fault)}"
        return f"; it is not in the evidence{why}"


def deny_output(reason: str) -> dict[str, Any]:
    """Give what Claude Code reads as a refusal of the call."""
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
        }
    }


def fault_line(error: Exception) -> str:
    """Say in one line what the user reads of an error."""
    if not isinstance(error, HookFault):
        return f"openbox-agentrt: {_one_line(f'{type(error).__name__}: {error}')}"
    remedy = "" if error.remedy is None else f"; {error.remedy}"
    return f"openbox-agentrt: {_one_line(f'{error}{remedy}')}"


def _record(
    event: HookEvent,
    settings: HookSettings,
    violations: Sequence[Violation],
    rules_hash: str,
    steps: tuple[History, HookRules] | None = None,
    *,
    always: bool = False,
) -> str:
    """
    Put violations into the session's evidence, and the steps of a session that ends.

    Returns:
        A line about what went wrong; empty if nothing did.
    """
    if not violations and not always:
        return ""
    from openbox_agentrt.doors.claude_code.session_evidence import record_in

    failure = record_in(
        settings.evidence_folder,
        violations,
        options=settings,
        session_id=event.session_id,
        rules_hash=rules_hash,
        steps=steps,
    )
    return "" if failure is None else f"openbox-agentrt: the evidence is incomplete: {_one_line(failure)}"


def _debt(violation: Violation) -> str:
    needs = violation.remedy or violation.needs
    return f"{violation.spec} (needs {needs})" if needs else violation.spec


def _one_line(text: str) -> str:
    return " ".join(text.split())[:1000]
