"""Run a command: what it says, and with which code it ends, whatever happens."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Any

_DEBUG = "OPENBOX_AGENTRT_DEBUG"
_INTERRUPTED = 130
_BROKEN_PIPE = 141


class InputError(Exception):
    """
    The input of a command cannot be used. The command did nothing.

    Attributes:
        code: With which exit code the command ends.
    """

    def __init__(self, problem: str, *, code: int = 2) -> None:
        self.code = code
        super().__init__(problem)


def run(module: str, arguments: Sequence[str], *, prog: str) -> int:
    """
    Run the command of a module.

    Nothing gets out: what is wrong with the input is one line on standard error and exit code 2. An error of
    our own is as well, and with the variable OPENBOX_AGENTRT_DEBUG set it is raised.
    """
    for stream in (sys.stdout, sys.stderr):
        _make_tolerant(stream)
    try:
        code = _call(module, arguments, prog)
        sys.stdout.flush()
    except SystemExit as error:
        # argparse ends this way.
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has read enough. Nothing may be left to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except Exception as error:
        if not isinstance(error, _expected()) and os.environ.get(_DEBUG):
            raise
        # Whatever it is, a user gets one line and no traceback.
        print(f"error: {_in_one_line(error)}", file=sys.stderr)
        return error.code if isinstance(error, InputError) else 2
    return code


def write_output(name: str, data: bytes) -> None:
    """
    Write a file that a command was asked for, whole or not at all.

    Raises:
        InputError: It could not be written. The system's error names a temporary file.
    """
    from .._files.whole_write import write_private

    try:
        write_private(os.path.expanduser(name), data)
    except OSError as error:
        raise InputError(f"could not write {name!r} ({(error.strerror or 'error').lower()})") from error


def _call(module: str, arguments: Sequence[str], prog: str) -> int:
    loaded: Any = import_module(f".{module}", __package__)
    if hasattr(loaded, "main"):
        return int(loaded.main(arguments))
    import typer

    # Plain help: the boxes that rich draws cut the names of options off where a terminal has 80 columns.
    loaded.app.rich_markup_mode = None
    command = typer.main.get_command(loaded.app)
    # typer has a copy of click in some versions and depends on it in others. Both have these classes.
    errors: Any = typer.BadParameter.__mro__
    usage_error, click_error = errors[1], errors[2]
    try:
        with command.make_context(prog, list(arguments)) as context:
            code = command.invoke(context)
    except typer.Exit as error:
        return int(error.exit_code)
    except typer.Abort:
        return _INTERRUPTED
    except click_error as error:
        hint = ""
        if isinstance(error, usage_error):
            # The command of a group, where it is one of these.
            at: Any = getattr(error, "ctx", None)
            hint = f"; see {at.command_path if at is not None else prog} --help"
        problem = error.format_message().replace("Value error, ", "").rstrip(".")
        if type(error).__name__ == "NoArgsIsHelpError":
            print(problem)  # which is the help of a group whose command was left out
            problem = "a command is needed"
        raise InputError(f"{problem[:1].lower()}{problem[1:]}{hint}") from error
    return code if isinstance(code, int) else 0


def _expected() -> tuple[type[Exception], ...]:
    """Errors that say themselves what is wrong: those of this package, and the system's."""
    from .._extras import MissingExtraError
    from .._picklable import PicklableError
    from .._webhook import WebhookError

    return InputError, PicklableError, MissingExtraError, WebhookError, OSError


def _in_one_line(error: Exception) -> str:
    from .text import printable

    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror.lower() + (f": {error.filename!r}" if error.filename else "")
    if not isinstance(error, _expected()):
        text = f"internal error, {type(error).__name__}: {text}; set {_DEBUG}=1 to see where"
    return printable(" ".join(text.split()))


def _make_tolerant(stream: IO[str]) -> None:
    # A terminal that cannot show a character must not end the command.
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
