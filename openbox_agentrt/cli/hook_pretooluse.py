"""``openbox-agentrt hook-pretooluse``: acel-core's name and options for the hook before a tool call."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ..doors.claude_code.acel_core_names import DEFAULT_STATE_DIR, main_pretooluse


def main(argv: Sequence[str]) -> int:
    """Answer the event on standard input. See `openbox_agentrt.doors.claude_code.acel_core_names`."""
    parser = argparse.ArgumentParser(
        prog="openbox-agentrt hook-pretooluse", description="Answer Claude Code before a tool call."
    )
    parser.add_argument("--rules", required=True, help="the rules file, JSON or YAML")
    parser.add_argument(
        "--state-dir", default=DEFAULT_STATE_DIR, help="folder of the sessions (default: %(default)s)"
    )
    options = parser.parse_args(argv)
    return main_pretooluse(options.rules, state_dir=options.state_dir)
