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
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

from openbox_agentrt.doors.claude_code.event import POST_EVENTS, PROMPT_EVENT, HookEvent, read_event
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


class HookSettings:
    """
    Say how the hooks of one configuration work.

    Attributes:
        rules: Rules file. The hook after a call needs none.
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

    # No dataclass, here and below: what makes those takes longer to load than the rest of a hook.
    __slots__ = (
        "clock",
        "evidence_dir",
        "fleet",
        "key",
        "on_rules_change",
        "project_dir",
        "record",
        "redact_fields",
        "redaction_key",
        "rules",
        "state_dir",
    )

    def __init__(
        self,
        *,
        rules: str | None = None,
        state_dir: str | None = None,
        project_dir: str | None = None,
        evidence_dir: str | None = None,
        key: str | None = None,
        record: Literal["violations", "steps"] = "violations",
        redact_fields: Sequence[str] = (),
        redaction_key: str | None = None,
        on_rules_change: OnRulesChange = "deny",
        fleet: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.rules = rules
        self.state_dir = state_dir
        self.project_dir = project_dir
        self.evidence_dir = evidence_dir
        self.key = key
        self.record = record
        self.redact_fields = redact_fields
        self.redaction_key = redaction_key
        self.on_rules_change = on_rules_change
        self.fleet = fleet
        self.clock = clock


class HookAnswer:
    """
    Hold what the process of a hook answers with.

    Attributes:
        code: Exit code.
        stdout: One JSON object, or nothing.
        stderr: One line, or nothing.
    """

    __slots__ = ("code", "stderr", "stdout")

    def __init__(self, *, code: int = 0, stdout: str = "", stderr: str = "") -> None:
        self.code = code
        self.stdout = stdout
        self.stderr = stderr

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HookAnswer):
            return NotImplemented
        return (self.code, self.stdout, self.stderr) == (other.code, other.stdout, other.stderr)

    def __repr__(self) -> str:
        return f"HookAnswer(code={self.code}, stdout={self.stdout!r}, stderr={self.stderr!r})"


def default_state_dir() -> str:
    """Name a folder outside of any project, so that no tool that works in a project comes across it."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(home, "openbox-agentrt", "hooks")


def before_tool(data: bytes, settings: HookSettings) -> HookAnswer:
    """Answer a ``PreToolUse`` event: deny the call with the reason, or say nothing."""
    return _answer(_before_tool, data, settings, keeps=True)


def at_prompt(data: bytes, settings: HookSettings) -> HookAnswer:
    """
    Answer a ``UserPromptSubmit`` event: take note of what the user says, which values may come from.

    A prompt that a contract refuses is not given to the model, and the user reads why.
    """
    return _answer(_at_prompt, data, settings, keeps=True)


def after_tool(data: bytes, settings: HookSettings) -> HookAnswer:
    """Take note of ``PostToolUse``, ``PostToolUseFailure`` or ``PermissionDenied``."""
    return _answer(_after_tool, data, settings)


def at_end(data: bytes, settings: HookSettings) -> HookAnswer:
    """
    Answer ``Stop`` and ``SessionEnd``: settle what the session owes.

    At ``Stop``, the client is sent back to do what is missing, once per turn. At ``SessionEnd`` it is
    recorded.
    """
    return _answer(_at_end, data, settings)


def at_idle(data: bytes, settings: HookSettings) -> HookAnswer:
    """End all sessions that gave no sign of life for a day. `data` is not looked at."""
    return _answer(lambda _, given: HookAnswer(stderr=_end_idle(given, most=1_000)), data, settings)


def _at_prompt(data: bytes, settings: HookSettings) -> HookAnswer:
    event = read_event(data, expected=(PROMPT_EVENT,))
    lease = None
    with _log(settings, event) as log:
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


def _before_tool(data: bytes, settings: HookSettings) -> HookAnswer:
    event = read_event(data, expected=("PreToolUse",))
    with _log(settings, event) as log:
        is_new = log.is_blank
        ruling, trouble = _begin(log, event, settings)
    trouble = trouble or _end_others(settings, event, due=is_new)
    if ruling.reason is None:
        return HookAnswer(stderr=trouble)
    return HookAnswer(stdout=json.dumps(deny_output(ruling.reason)), stderr=trouble)


def _begin(log: SessionLog, event: HookEvent, settings: HookSettings) -> tuple[Ruling, str]:
    # Here, because the hook after a call needs no engine and each hook is a process that starts.
    from openbox_agentrt.doors.claude_code.judgement import begin_call

    rules = _rules(settings, log)
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


def _after_tool(data: bytes, settings: HookSettings) -> HookAnswer:
    event = read_event(data, expected=POST_EVENTS)
    with _log(settings, event) as log:
        lease = end_call(log, event, now=settings.clock())
    _finish(lease, settings, "commit" if event.ok else "fail" if event.ran else "undo")
    return HookAnswer()


def _finish(
    lease: Mapping[str, Any] | None, settings: HookSettings, how: Literal["commit", "fail", "undo"]
) -> None:
    if lease is not None:
        from openbox_agentrt.doors.claude_code.fleet import finish_in_fleet

        finish_in_fleet(lease, settings.fleet, how)


def _at_end(data: bytes, settings: HookSettings) -> HookAnswer:
    event = read_event(data, expected=("Stop", "SessionEnd"))
    final = event.name == "SessionEnd"
    try:
        violations, trouble = _end_session(event, settings, final=final)
    except HookFault as fault:
        if event.repeated_stop:
            # Blocking again would keep the client from ever stopping. The user is told.
            return HookAnswer(code=1, stderr=fault_line(fault))
        raise
    trouble = trouble or _end_others(settings, event, due=final)
    owed = [violation for violation in violations if violation.mode == "enforce"]
    if not owed:
        return HookAnswer(stderr=trouble)
    message = f"the session still owes {'; '.join(_debt(violation) for violation in owed)}"
    if final or event.repeated_stop:
        return HookAnswer(code=1, stderr="; ".join(filter(None, (message, trouble))))
    return HookAnswer(stdout=json.dumps({"decision": "block", "reason": message}))


def _end_session(event: HookEvent, settings: HookSettings, *, final: bool) -> tuple[list[Violation], str]:
    from openbox_agentrt.doors.claude_code.judgement import unmet_obligations

    with _log(settings, event) as log:
        rules = _rules(settings, log)
        # Before the end is written down, which is no step.
        keeps_steps = final and settings.record == "steps"
        history = read_history(log, event.session_id, whole=True) if keeps_steps else None
        violations, late = unmet_obligations(
            log,
            event,
            rules,
            now=settings.clock(),
            on_rules_change=settings.on_rules_change,
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
    import copy

    from openbox_agentrt.doors.claude_code.idle_sessions import end_idle_sessions

    # One that ran by other rules may be another project's, and is ended by nobody else's.
    own, told = copy.copy(settings), []
    own.on_rules_change = "deny"

    def end(event: HookEvent) -> bool:
        try:
            told.append(_end_session(event, own, final=True)[1])
        except HookFault as fault:
            told.append(fault_line(fault))
            return False
        return True

    where, project = _state_dir(settings), settings.project_dir
    end_idle_sessions(where, end, now=settings.clock(), project_dir=project, but=but, most=most)
    return "; ".join(filter(None, told))


def _answer(handle: _Handle, data: bytes, settings: HookSettings, *, keeps: bool = False) -> HookAnswer:
    try:
        return handle(data, settings)
    except Exception as error:  # noqa: BLE001 - fail-closed: any other exit code would let the call run
        trouble = _keep_unjudged(data, settings, error) if keeps else ""
        return HookAnswer(code=2, stderr=fault_line(error) + trouble)


def _keep_unjudged(data: bytes, settings: HookSettings, error: Exception) -> str:
    """Put a call that a fault refuses into its session's evidence, and say why if that cannot be done."""
    try:
        from openbox_agentrt.doors.claude_code.unjudged import unjudged_call

        if (found := unjudged_call(data, error)) is None:
            return ""
        event, violations = found
        with _log(settings, event, wait_seconds=1.0) as log:
            trouble = _record(event, settings, violations, _rules(settings, log).rules_hash)
        return trouble and f"; {trouble}"
    except Exception as fault:  # noqa: BLE001 - fail-closed: it is refused, whatever becomes of its record
        return "" if str(fault) == str(error) else f"; it is not in the evidence: {fault_line(fault)}"


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

    folder = os.path.expanduser(settings.evidence_dir or _state_dir(settings))
    folder = os.path.join(settings.project_dir or "", folder)
    about = {"session_id": event.session_id, "rules_hash": rules_hash}
    failure = record_in(folder, violations, options=settings, steps=steps, **about)
    return "" if failure is None else f"openbox-agentrt: the evidence is incomplete: {_one_line(failure)}"


def _rules(settings: HookSettings, log: SessionLog) -> HookRules:
    from openbox_agentrt.doors.claude_code.rules import load_hook_rules

    if settings.rules is None:
        raise HookFault("no rules file is given", remedy="--rules FILE")
    return load_hook_rules(settings.rules, log.folder)


def _log(
    settings: HookSettings, event: HookEvent, *, wait_seconds: float = LOCK_WAIT_SECONDS
) -> AbstractContextManager[SessionLog]:
    where, project = _state_dir(settings), settings.project_dir
    return open_log(where, event.session_id, project_dir=project, wait_seconds=wait_seconds)


def _state_dir(settings: HookSettings) -> str:
    return default_state_dir() if settings.state_dir is None else settings.state_dir


def _debt(violation: Violation) -> str:
    needs = violation.remedy or violation.needs
    return f"{violation.spec} (needs {needs})" if needs else violation.spec


def _one_line(text: str) -> str:
    return " ".join(text.split())[:1000]
