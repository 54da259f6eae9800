"""
``openbox-agentrt hook pre|post|end``: the hooks of Claude Code.

Each tool call starts these processes, so this command is read with argparse and loads no other command line.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from ..doors.claude_code import HookAnswer, HookSettings, after_tool, at_end, before_tool

__all__ = ("main",)

_ANSWERS: dict[str, Callable[[bytes, HookSettings], HookAnswer]] = {
    "pre": before_tool,
    "post": after_tool,
    "end": at_end,
}


def main(argv: Sequence[str]) -> int:
    """
    Answer one event, read from standard input.

    Returns:
        0 with what standard output says, 1 at the end of a session that owes something, 2 for a fault.
    """
    options = _parser().parse_args(argv)
    settings = HookSettings(
        rules=options.rules,
        state_dir=options.state_dir,
        project_dir=os.environ.get("CLAUDE_PROJECT_DIR") or None,
        evidence_dir=options.evidence_dir,
        key=options.key,
        on_rules_change=options.on_rules_change,
    )
    try:
        answer = _ANSWERS[options.event](sys.stdin.buffer.read(), settings)
        if answer.stdout:
            print(answer.stdout, flush=True)
    except (OSError, KeyboardInterrupt) as error:
        # Fail-closed: a refusal that could not be written would be no refusal.
        answer = HookAnswer(code=2, stderr=f"openbox-agentrt: {type(error).__name__}: {error}")
    if answer.stderr:
        print(answer.stderr, file=sys.stderr)
    return answer.code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="openbox-agentrt hook", description="Contracts for the tool calls of Claude Code."
    )
    events = parser.add_subparsers(dest="event", required=True, metavar="pre|post|end")
    for name, text in (
        ("pre", "answer PreToolUse: refuse the call, or say nothing"),
        ("post", "take note of PostToolUse, PostToolUseFailure or PermissionDenied"),
        ("end", "answer Stop and SessionEnd: settle what the session owes"),
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
            "--on-rules-change",
            choices=("deny", "replay"),
            default="deny",
            help="when the rules are not those that the session began under (default: deny)",
        )
    return parser
