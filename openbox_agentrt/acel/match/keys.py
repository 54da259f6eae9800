"""
Keys: the arguments that say which of several budgets a call belongs to.

One argument, several together, another one for each tool, or all of them. How their values are spelt does not
matter, see `spelling`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

from ..._plain.arguments import plain_value
from ..._plain.digest import text_digest
from ..._plain.spelling import Fold
from ..._plain.unseen import unseen_in
from ..._values import dataclass, field
from ..wording import shown
from .names import normal_name
from .paths import FieldError, FieldPath, UnreadableError
from .spelling import key_text

KeyGiven: TypeAlias = str | Sequence[str] | Mapping[str, str]
"""A key as it is given: a path, several, one for each tool, or ``"*"`` for all arguments."""

ALL = "*"
OF_SUBJECT = "$subject."
"""What a path begins with that is no argument: an entry of the subject that the run is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """
    Say whose a call is, beside what its arguments say.

    Attributes:
        subject: What the run is about, such as a customer and a tenant.
        run: The run that it belongs to, where several share a session.
    """

    subject: Mapping[str, Any] = field(default_factory=dict)
    run: str = ""


NOBODY = About()


class Key(ABC):
    """
    The arguments that split a contract.

    Attributes:
        written: The arguments as they are written in a contract.
        text: The same with `fold`. Equal texts are equal keys.
        fold: Which spellings of a value are one, see `spelling`.
        reads_arguments: Whether it stands in the arguments of a call, at least in part.
        reads_subject: Whether it stands in what the run is about, at least in part.
    """

    __slots__ = ("fold", "reads_arguments", "reads_subject", "text", "written")

    def __init__(self, text: str, fold: Fold | None, paths: Collection[str] = (ALL,)) -> None:
        self.written = text
        self.reads_subject = any(path.startswith(OF_SUBJECT) for path in paths)
        self.reads_arguments = not all(path.startswith(OF_SUBJECT) for path in paths)
        self.text = text if fold is None else f"{text}, fold={fold}"
        self.fold = fold

    @abstractmethod
    def read(self, tool: str, args: Mapping[str, Any], about: About = NOBODY) -> str:
        """
        Read the key out of the arguments of a call, and of what it is about.

        Raises:
            FieldError: It is missing, or no value that can be a key.
        """

    @abstractmethod
    def form(self) -> Any:
        """Say in JSON which arguments they are: the same for every way of writing it."""

    def spelt(self, name: str) -> str:
        """Write the name of something that is kept per key as the key is written."""
        return name

    @property
    def is_run_alone(self) -> bool:
        """Tell whether it tells runs apart and nothing else."""
        return False

    def within_run(self, value: str, run: str) -> str | None:
        """Give the rest of a value that is of one run; None if it is of another, or of none."""
        return None

    def check(  # noqa: B027 - most say something of every tool
        self, tools: frozenset[str] | None, among: frozenset[str] | None
    ) -> None:
        """
        Accept the tools of whose calls a contract needs the key, or None if only asking tells.

        Args:
            tools: Those tools.
            among: All that the contract is about.

        Raises:
            ValueError: It says nothing of one of `tools`, or something of another than `among`.
        """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def read_subject(given: object) -> dict[str, Any]:
    """
    Accept what a run or a session is about, as a copy.

    Raises:
        TypeError: It is no mapping of names to texts or whole numbers.
    """
    if isinstance(given, Mapping) and all(map(_is_entry, given.items())):
        return dict(given)
    raise TypeError(f"a subject must be a mapping of names to texts or whole numbers, got {shown(given)}")


def _is_entry(entry: tuple[object, object]) -> bool:
    name, value = entry
    named = isinstance(name, str) and name and "." not in name
    return bool(named) and isinstance(value, str | int) and not isinstance(value, bool)


def key_of(given: KeyGiven, fold: Fold | None = None) -> Key:
    """
    Make a key from how it was given.

    Raises:
        TypeError: It is neither a path, nor several, nor one for each tool.
        ValueError: A path is none, or there is none.
    """
    if isinstance(given, str):
        return _AllArguments(fold) if given == ALL else _OneArgument(given, fold)
    if isinstance(given, Mapping):
        return _ByTool(given, fold)
    if isinstance(given, Sequence):
        return _OneArgument(given[0], fold) if len(given) == 1 else _Together(given, fold)
    raise TypeError(f"a key must be a path, a list of paths, or a path for each tool, got {shown(given)}")


def of_run(key: Key | None) -> Key:
    """Make a key that tells runs apart, and within one what `key` does."""
    return _OfRun(key)


class _Path:
    """Read one value of a key: an argument, or an entry of the subject, which no argument can pass for."""

    __slots__ = ("_of_subject", "_path", "text")

    def __init__(self, path: str) -> None:
        self._path = FieldPath(path)
        if self._path.many:
            raise ValueError(f"a key must name one value, got {shown(path)}")
        self.text = path
        self._of_subject = path.startswith(OF_SUBJECT)

    def read(self, args: Mapping[str, Any], about: About) -> Any:
        return self._path.read({"$subject": about.subject} if self._of_subject else args)


class _OneArgument(Key):
    __slots__ = ("_path",)

    def __init__(self, path: str, fold: Fold | None) -> None:
        self._path = _Path(path)
        super().__init__(path, fold, (path,))

    def read(self, tool: str, args: Mapping[str, Any], about: About = NOBODY) -> str:
        return key_text(self._path.read(args, about), self._path.text, fold=self.fold)

    def form(self) -> Any:
        return self._path.text

    def spelt(self, name: str) -> str:
        return key_text(name, self._path.text, fold=self.fold)


class _Together(Key):
    """Make each combination of the values of several arguments a key."""

    __slots__ = ("_paths",)

    def __init__(self, paths: Sequence[str], fold: Fold | None) -> None:
        if not paths or len(set(paths)) < len(paths):
            raise ValueError(f"a key must name one or more arguments, each once, got {shown(list(paths))}")
        # In an order of their own, so that two contracts over the same arguments have the same keys.
        self._paths = tuple(_Path(path) for path in sorted(paths))
        super().__init__(f"[{', '.join(sorted(paths))}]", fold, paths)
        self.written = f"[{', '.join(paths)}]"

    def read(self, tool: str, args: Mapping[str, Any], about: About = NOBODY) -> str:
        parts = [key_text(path.read(args, about), path.text, fold=self.fold) for path in self._paths]
        return key_text(json.dumps(parts, ensure_ascii=False), self.text)

    def form(self) -> Any:
        return [path.text for path in self._paths]


class _ByTool(Key):
    """One argument for each tool, where tools call the same thing by different names."""

    __slots__ = ("_paths",)

    def __init__(self, paths: Mapping[str, str], fold: Fold | None) -> None:
        if not paths or "" in paths:
            raise ValueError(f"a key must name an argument for each tool, got {shown(dict(paths))}")
        self._paths = {normal_name(tool): _Path(paths[tool]) for tool in sorted(paths)}
        if len(self._paths) < len(paths):
            raise ValueError(f"a key must name each tool once, got {shown(dict(paths))}")
        written = ", ".join(f"{tool}: {path.text}" for tool, path in self._paths.items())
        super().__init__(f"{{{written}}}", fold, tuple(paths.values()))

    def read(self, tool: str, args: Mapping[str, Any], about: About = NOBODY) -> str:
        path = self._paths.get(tool)
        if path is None:
            raise FieldError(f"the key names no argument of {tool!r:.200}")
        return key_text(path.read(args, about), path.text, fold=self.fold)

    def form(self) -> Any:
        return {tool: path.text for tool, path in self._paths.items()}

    def check(self, tools: frozenset[str] | None, among: frozenset[str] | None) -> None:
        if tools is None:
            raise ValueError("a key for each tool needs a contract that names its tools, without patterns")
        odd_ones = (tools - self._paths.keys()) | (self._paths.keys() - (tools if among is None else among))
        if odd_ones:
            odd = min(odd_ones)
            problem = "has no role in" if odd in self._paths else "has no argument in the key of"
            raise ValueError(f"tool {odd!r:.200} {problem} the contract")

    def spelt(self, name: str) -> str:
        return key_text(name, "key", fold=self.fold)


class _OfRun(Key):
    """A run, and within it another key."""

    __slots__ = ("_inner",)

    def __init__(self, inner: Key | None) -> None:
        super().__init__("$run" if inner is None else f"$run, {inner.text}", None, ())
        self.reads_arguments = inner is not None and inner.reads_arguments
        self.reads_subject = inner is not None and inner.reads_subject
        self.fold = None if inner is None else inner.fold
        self.written = "the run" if inner is None else inner.written
        self._inner = inner

    def read(self, tool: str, args: Mapping[str, Any], about: About = NOBODY) -> str:
        return f"{about.run} {'' if self._inner is None else self._inner.read(tool, args, about)}"

    def form(self) -> Any:
        return [] if self._inner is None else self._inner.form()

    def spelt(self, name: str) -> str:
        return name

    @property
    def is_run_alone(self) -> bool:
        return self._inner is None

    def within_run(self, value: str, run: str) -> str | None:
        return value.removeprefix(f"{run} ") if value.startswith(f"{run} ") else None


class _AllArguments(Key):
    """Make each different call a key."""

    __slots__ = ()

    def __init__(self, fold: Fold | None) -> None:
        super().__init__(ALL, fold)

    def read(self, tool: str, args: Mapping[str, Any], about: About = NOBODY) -> str:
        seen = plain_value(dict(args))
        for unseen in unseen_in(seen):
            raise UnreadableError("an argument", unseen)
        text = json.dumps([tool, self._spelt(seen)], ensure_ascii=False, sort_keys=True)
        return "sha256:" + text_digest(text)

    def form(self) -> Any:
        return ALL

    def _spelt(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._spelt(part) for name, part in value.items()}
        if isinstance(value, list | tuple):
            return [self._spelt(part) for part in value]
        if isinstance(value, bytes):
            raise FieldError("bytes are no part of a key")
        return (
            value
            if value is None or isinstance(value, bool)
            else key_text(value, "an argument", fold=self.fold)
        )
