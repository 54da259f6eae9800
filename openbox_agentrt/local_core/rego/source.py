"""A policy file as text: what it is called, and what in it would be misunderstood."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec

from ..._picklable import PicklableError

_PACKAGE = re.compile(r"^[ \t]*package[ \t]+(?P<name>[^#\r\n]+)", re.MULTILINE)
_RESULT = re.compile(r"^[ \t]*(?:default[ \t]+)?result\b", re.MULTILINE)
# Whatever reads `data` and is not plainly another document: a name that is computed may be this one.
_SESSION = re.compile(r"\bdata\b(?!\s*\.\s*(?!session\b)\w)")

# What regopy takes without a word and then never matches. A rule that silently does not match lets
# through what it was written to stop, so each is refused with the line it stands on.
_TRAPS = (
    (re.compile(r"\\u[0-9a-fA-F]{4}"), r"\u escapes are not understood here: write the character itself"),
    (re.compile(r"\(\?[imsU-]+[:)]"), "flags in regular expressions are not understood here: use lower(...)"),
    (re.compile(r"\\[pP]\{?[A-Za-z]"), r"\p classes in regular expressions are not understood here"),
)


class PolicyError(PicklableError, ValueError):
    """
    A policy file cannot be used. No local Core was made.

    Attributes:
        path: The file, as it was given.
        line: The line that is wrong, from 1; ``None`` when no single line is.
        problem: What is wrong with it.
    """

    def __init__(self, *, path: str, line: int | None, problem: str) -> None:
        self.path = path
        self.line = line
        self.problem = problem
        where = path if line is None else f"{path}:{line}"
        super().__init__(f"policy {where}: {problem}")


class RegoSource(msgspec.Struct, frozen=True, kw_only=True):
    """
    The text of a policy file.

    Attributes:
        path: The file, as it was given.
        package: Its package, as it is written there.
        uses_session: Whether it asks for the earlier events of the run.
    """

    path: str
    text: str
    package: str
    uses_session: bool

    def error_at(self, offset: int, problem: str) -> PolicyError:
        """Make an error about the line that holds the byte at `offset`."""
        before = self.text.encode("utf-8")[:offset]
        return PolicyError(path=self.path, line=before.count(b"\n") + 1, problem=problem)

    def error(self, problem: str) -> PolicyError:
        """Make an error about the file as a whole."""
        return PolicyError(path=self.path, line=None, problem=problem)


def read_source(path: str | os.PathLike[str]) -> RegoSource:
    """
    Read a policy file.

    Raises:
        PolicyError: It cannot be read, has no package or no rule ``result``, or holds something that
            would be misunderstood.
    """
    name = os.fspath(path)
    try:
        text = Path(name).read_bytes().decode("utf-8-sig")
    except OSError as error:
        problem = (error.strerror or type(error).__name__).lower()
        raise PolicyError(path=name, line=None, problem=problem) from error
    except ValueError as error:
        # ValueError: bytes that are no UTF-8, or a name that no file can have.
        raise PolicyError(path=name, line=None, problem="is not a text in UTF-8") from error
    package = _PACKAGE.search(text)
    if package is None:
        raise PolicyError(path=name, line=1, problem="has no 'package'")
    package_name = package["name"].strip()
    if _RESULT.search(text) is None:
        line = text.count("\n", 0, package.start()) + 1
        raise PolicyError(path=name, line=line, problem=f"package {package_name!r} has no rule 'result'")
    code = [("" if line.lstrip().startswith("#") else line) for line in text.split("\n")]
    for number, line_text in enumerate(code, start=1):
        for trap, problem in _TRAPS:
            if trap.search(line_text):
                raise PolicyError(path=name, line=number, problem=problem)
    return RegoSource(
        path=name, text=text, package=package_name, uses_session=_SESSION.search("\n".join(code)) is not None
    )
