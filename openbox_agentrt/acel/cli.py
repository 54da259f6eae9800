"""
The command line as acel-core has it, for programs that call `build_parser`.

The commands themselves are those of `openbox_agentrt.cli`, and so are their exit codes.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

from . import config as config_mod

__all__ = ("_load_module", "build_parser", "config_mod", "main")

_STATE_DIR = ".claude/acel_state"


def build_parser() -> argparse.ArgumentParser:
    """Build a parser of the commands. Its result has a `func` that takes it and returns the exit code."""
    parser = argparse.ArgumentParser(prog="acel", description="Contracts for the tool calls of agents.")
    commands = parser.add_subparsers(dest="command", required=True)

    replay = commands.add_parser("replay", help="check a recorded trace against contracts")
    replay.add_argument("trace", help="the trace: JSON, JSON Lines or YAML; - for standard input")
    replay.add_argument("--rules", required=True, help="the rules file, JSON or YAML")
    replay.add_argument("--evidence", action="store_true", help="print the evidence too")
    replay.add_argument("--save-evidence", metavar="PATH", help="write the evidence to this file")
    replay.set_defaults(func=_forward("trace", "rules", "evidence", "save_evidence"))

    verify = commands.add_parser("verify", help="check an evidence log for tampering")
    verify.add_argument("evidence_file", help="the log")
    verify.add_argument("--public-key", metavar="HEX", help="key that it has to be signed with")
    verify.set_defaults(func=_forward("evidence_file", "public_key"))

    show = commands.add_parser("show", help="print an evidence log as a timeline")
    show.add_argument("evidence_file", help="the log")
    show.add_argument(
        "--trace", action="store_true", help="also print the calls leading up to each violation"
    )
    show.add_argument("--public-key", metavar="HEX", help="key that it has to be signed with")
    show.set_defaults(func=_forward("evidence_file", "trace", "public_key"))

    validate = commands.add_parser("validate", help="read a rules file and print what was understood")
    validate.add_argument("rules", help="the rules file, JSON or YAML")
    validate.set_defaults(func=_forward("rules"))

    init_config = commands.add_parser("init-config", help="write a rules file to start from")
    init_config.add_argument("path", nargs="?", default="rules.yaml", help="where (default: rules.yaml)")
    init_config.add_argument("--force", action="store_true", help="replace a file that is there")
    init_config.set_defaults(func=_forward("path", "force"))

    serve = commands.add_parser("serve", help="run an MCP server under contracts over stdio")
    serve.add_argument("module", help="file or module that defines build_server()")
    serve.add_argument("--shadow", action="store_true", help="record violations and refuse nothing")
    serve.add_argument("--contracts", help="rules file whose contracts are added")
    serve.set_defaults(func=_forward("module", "shadow", "contracts"))

    pre = commands.add_parser("hook-pretooluse", help="answer Claude Code before a tool call")
    pre.add_argument("--rules", required=True, help="the rules file, JSON or YAML")
    pre.add_argument(
        "--state-dir", default=_STATE_DIR, help=f"folder of the sessions (default: {_STATE_DIR})"
    )
    pre.set_defaults(func=_hook_pretooluse)

    post = commands.add_parser("hook-posttooluse", help="take note of a tool call that ended")
    post.add_argument(
        "--state-dir", default=_STATE_DIR, help=f"folder of the sessions (default: {_STATE_DIR})"
    )
    post.set_defaults(func=_hook_posttooluse)

    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """
    Run a command and end the process.

    Raises:
        SystemExit: Always, with the exit code.
    """
    args = build_parser().parse_args(argv)
    raise SystemExit(args.func(args))


def _load_module(ref: str) -> ModuleType:
    """
    A module, by the path of its file or by its name.

    Raises:
        FileNotFoundError: If there is no such file.
        ImportError: If it cannot be imported.
    """
    if not ref.endswith(".py"):
        return importlib.import_module(ref)
    path = Path(ref)
    if not path.exists():
        raise FileNotFoundError(f"no such file: {ref}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"could not load module from path: {ref}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _forward(given: str, *options: str) -> Callable[[argparse.Namespace], int]:
    """Hand a command on to the command line of this package, with what was given and with its options."""

    def run(args: argparse.Namespace) -> int:
        # Upwards, and only when a command is run: the command line stands on top of everything.
        from ..cli import main

        written = [
            f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}")
            for name in options
            if (value := getattr(args, name)) not in (None, False)
        ]
        return main((args.command, *written, "--", getattr(args, given)))

    return run


def _hook_pretooluse(args: argparse.Namespace) -> int:
    from .hooks import main_pretooluse

    return main_pretooluse(args.rules, state_dir=args.state_dir)


def _hook_posttooluse(args: argparse.Namespace) -> int:
    from .hooks import main_posttooluse

    return main_posttooluse(state_dir=args.state_dir)


if __name__ == "__main__":  # pragma: no cover - the test runs it in a process of its own
    main(sys.argv[1:])
