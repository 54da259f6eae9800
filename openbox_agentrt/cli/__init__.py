"""
The command line: ``openbox-agentrt COMMAND ...``, also ``python -m openbox_agentrt.cli``.

One command per module, loaded when it is called: asking for help or for the version loads none of them. A
module has a `main` that takes its arguments and gives an exit code, or a typer application called
``app``.

Exit codes: 0 clean; 1 violations or tampering found; 2 the input or the call was wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .._version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

__all__ = ("COMMANDS", "Command", "main", "process")

_PROGRAM = "openbox-agentrt"


class Command:
    """
    A command of the command line.

    Attributes:
        module: Its module in this package.
        summary: What it does, in one line; empty for a command that help does not list.
    """

    # No dataclass: what makes those takes longer to load than a hook has time.
    __slots__ = ("module", "summary")

    def __init__(self, module: str, summary: str = "") -> None:
        self.module = module
        self.summary = summary


COMMANDS: dict[str, Command] = {
    "demo": Command("demo", "watch a governed agent on this machine, without a network"),
    "init-config": Command("init_config", "write a rules file to start from"),
    "validate": Command("validate", "read a rules file and print what was understood"),
    "analyse": Command("analyse", "find contracts that contradict each other or never decide"),
    "test": Command("test", "run the tests of a rules file"),
    "diff": Command("diff", "compare two rules files, with the first call on which they part"),
    "mine": Command("mine", "suggest contracts that recorded sessions keep to, in shadow mode"),
    "schema": Command("schema", "print the JSON Schema of rules files"),
    "replay": Command("replay", "check a recorded trace against a rules file"),
    "backtest": Command("backtest", "say what rules would have refused of what was recorded"),
    "import": Command("import_", "write recordings of other programs as a trace"),
    "verify": Command("verify", "check an evidence log for tampering"),
    "show": Command("show", "print an evidence log as a timeline"),
    "keys": Command("keys", "print the public key of a key file"),
    "evidence": Command("evidence", "show, report or verify logs; checkpoints, proofs, witnesses"),
    "report": Command("report", "say what contracts refused, and what enforcing would have refused"),
    "serve": Command("serve", "run an MCP server of your own under contracts"),
    "proxy": Command("proxy", "put contracts in front of an MCP server that you cannot change"),
    "hook": Command("hook", "answer the hooks of a coding agent: pre, post, end"),
    "hook-pretooluse": Command("hook_pretooluse"),
    "hook-posttooluse": Command("hook_posttooluse"),
    "console": Command("console", "show a page of what agents do and which calls wait for you"),
    "halt": Command("halt", "let nothing more start in a run, in a session, or by an agent"),
    "fleet": Command("fleet", "look at the store that processes share, and settle what is stuck"),
    "core": Command("core", "serve a local Core, and decide the approvals that wait in it"),
}


def process() -> NoReturn:
    """Run the command line of the process, and end it with the exit code."""
    if sys.argv[1:2] and sys.argv[1].startswith("hook"):
        # A hook is a process for each call of a tool, loaded when it is called as everything here.
        from .leaving import run_and_leave

        run_and_leave(main)
    sys.exit(main())


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the command that the arguments name.

    Args:
        argv: Arguments without the name of the program; those of the process by default.

    Returns:
        The exit code.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = arguments[0] if arguments else ""
    if name in ("--help", "-h", "help"):
        print(_help())
        return 0
    if name in ("--version", "-V"):
        print(f"{_PROGRAM} {__version__}")
        return 0
    command = COMMANDS.get(name)
    if command is None:
        if not name:
            print(_help(), end="\n\n")
        problem = "a command is needed" if not name else f"there is no command {name!a}{_meant(name)}"
        print(f"error: {problem}; see {_PROGRAM} --help", file=sys.stderr)
        return 2
    from .running import run

    return run(command.module, arguments[1:], prog=f"{_PROGRAM} {name}")


def _help() -> str:
    listed = {name: command.summary for name, command in COMMANDS.items() if command.summary}
    width = max(map(len, listed))
    lines = [f"  {name:<{width}}  {summary}" for name, summary in listed.items()]
    return "\n".join(
        (
            f"usage: {_PROGRAM} COMMAND ...",
            "",
            "Governance for Agent-RT agents: contracts, evidence, and a local Core.",
            "",
            *lines,
            "",
            f"{_PROGRAM} COMMAND --help says more; --version prints the version.",
            "Exit codes: 0 clean; 1 violations or tampering; 2 wrong input or call.",
        )
    )


def _meant(name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, COMMANDS, n=1, cutoff=0.7)
    return f", did you mean {close[0]!r}" if close else ""
