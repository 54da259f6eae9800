"""
``openbox-agentrt hook prompt|pre|post|end``: the hooks of Claude Code.

Each tool call starts these processes, so a command line that is right is read by hand. Only one that is
not loads argparse, which knows how to say what is wrong.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence

from ..doors.claude_code.answers import (
    HookAnswer,
    HookSettings,
    after_tool,
    at_end,
    at_idle,
    at_prompt,
    before_tool,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any, NoReturn

_ANSWERS: dict[str, Callable[[bytes, HookSettings], HookAnswer]] = {
    "prompt": at_prompt,
    "pre": before_tool,
    "post": after_tool,
    "end": at_end,
    "idle": at_idle,
}
_OPTIONS = (
    "--rules",
    "--state-dir",
    "--evidence-dir",
    "--key",
    "--record",
    "--redact-field",
    "--redaction-key",
    "--on-rules-change",
    "--fleet",
)
_CHANGES = ("deny", "replay")
_RECORDS = ("violations", "steps")


def main(argv: Sequence[str]) -> int:
    """
    Answer one event, read from standard input.

    Returns:
        0 with what standard output says, 1 at the end of a session that owes something, 2 for a fault.
    """
    options = _read(argv)
    if options is None:
        options = vars(_parser().parse_args(argv))
    settings = HookSettings(
        rules=options.get("rules"),
        state_dir=options.get("state_dir"),
        project_dir=os.environ.get("CLAUDE_PROJECT_DIR") or None,
        evidence_dir=options.get("evidence_dir"),
        key=options.get("key"),
        record="steps" if options.get("record") == "steps" else "violations",
        redact_fields=options.get("redact_field") or (),
        redaction_key=options.get("redaction_key"),
        fleet=options.get("fleet") or os.environ.get("OPENBOX_AGENTRT_FLEET") or None,
        on_rules_change="replay" if options.get("on_rules_change") == "replay" else "deny",
    )
    try:
        answer = _ANSWERS[options["event"] or ""](_event_of(options), settings)
        if answer.stdout:
            if sys.stdout is None:
                raise OSError("standard output is closed")
            print(answer.stdout, flush=True)
    except (OSError, KeyboardInterrupt) as error:
        # Fail-closed: a refusal that could not be written would be no refusal.
        answer = HookAnswer(code=2, stderr=f"openbox-agentrt: {type(error).__name__}: {error}")
    if answer.stderr and sys.stderr is not None:
        print(answer.stderr, file=sys.stderr)
    return answer.code


def _event_of(options: Mapping[str, Any]) -> bytes:
    # Whoever asks for this is no client, and says nothing.
    return b"" if options["event"] == "idle" else sys.stdin.buffer.read()


def _read(argv: Sequence[str]) -> Mapping[str, Any] | None:
    """Read the options of a command line that is right; None if it is not."""
    if not argv or argv[0] not in _ANSWERS:
        return None
    options: dict[str, Any] = {"event": argv[0]}
    words = iter(argv[1:])
    for word in words:
        name, given, value = word.partition("=")
        if not given:
            value = next(words, "")
        if name not in _OPTIONS or not value or value.startswith("-"):
            return None
        if name == "--redact-field":
            options.setdefault("redact_field", []).append(value)
        else:
            options[name[2:].replace("-", "_")] = value
    changes = options.get("on_rules_change", "deny")
    complete = options["event"] == "post" or "rules" in options
    records = options.get("record", "violations")
    return options if complete and changes in _CHANGES and records in _RECORDS else None


def _parser() -> argparse.ArgumentParser:
    import argparse

    class OneLineParser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            self.exit(2, f"error: {message}; see {self.prog} --help\n")

    parser = OneLineParser(
        prog="openbox-agentrt hook", description="Contracts for the tool calls of Claude Code."
    )
    events = parser.add_subparsers(dest="event", required=True, metavar="prompt|pre|post|end|idle")
    for name, text in (
        ("prompt", "take note of UserPromptSubmit, or refuse the prompt"),
        ("pre", "answer PreToolUse: refuse the call, or say nothing"),
        ("post", "take note of PostToolUse, PostToolUseFailure or PermissionDenied"),
        ("end", "answer Stop and SessionEnd: settle what the session owes"),
        ("idle", "end the sessions that gave no sign of life for a day, as SessionEnd does"),
    ):
        event = events.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        event.add_argument("--rules", metavar="FILE", help="the rules file", required=name != "post")
        event.add_argument(
            "--state-dir",
            metavar="DIR",
            help="folder of the session files (default: in the user's state folder)",
        )
        event.add_argument(
            "--evidence-dir", metavar="DIR", help="folder of the evidence (default: the state folder)"
        )
        event.add_argument("--key", metavar="FILE", help="Ed25519 key file that signs the evidence")
        event.add_argument(
            "--record",
            choices=_RECORDS,
            help="what goes into the evidence: what was refused, or also every step, at the end",
        )
        event.add_argument(
            "--redact-field",
            action="append",
            metavar="NAME",
            help="show this argument as a marker in the evidence; may be repeated",
        )
        event.add_argument(
            "--redaction-key", metavar="FILE", help="key file of these markers, created if it does not exist"
        )
        event.add_argument(
            "--fleet", metavar="URL", help="the store that contracts with scope: fleet count in"
        )
        event.add_argument(
            "--on-rules-change",
            choices=_CHANGES,
            default="deny",
            help="when the rules are not those that the session began under (default: deny)",
        )
    return parser
