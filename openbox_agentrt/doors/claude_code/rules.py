"""
The rules of a hook, read in each process.

What a rules file means does not change while its bytes do not. So it is kept beside the state, as plain data
under a name made of those bytes: the next process neither parses nor checks them again, and knows without the
engine which calls no contract is about.
"""

from __future__ import annotations

import json
import os

from openbox_agentrt._plain.digest import sha256, text_digest
from openbox_agentrt._version import __version__
from openbox_agentrt.doors.claude_code.clear_by_counts import clear_tools, guarding_roles, is_clear
from openbox_agentrt.doors.claude_code.folder import HookFault, StateFolder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from openbox_agentrt.acel.contracts.template import Template

_MAX_BYTES = 4 << 20


class HookRules:
    """
    Hold what calls are judged by.

    Attributes:
        state: The initial state.
        rules_hash: Hash of the contracts, as evidence has it.
        hash: Stands for both: two files with one hash decide alike.
    """

    __slots__ = ("_clear", "_contracts", "_names", "_specs", "hash", "rules_hash", "state")

    def __init__(self, compiled: Mapping[str, Any], contracts: tuple[Template, ...] | None = None) -> None:
        self.state: Mapping[str, Any] = compiled["state"]
        self.rules_hash: str = compiled["rules_hash"]
        self.hash: str = compiled["hash"]
        self._names: Mapping[str, list[list[str]] | None] | None = compiled["names"]
        self._clear = compiled["clear"]
        self._specs = compiled["contracts"]
        self._contracts = contracts

    @property
    def contracts(self) -> tuple[Template, ...]:
        """Give the contracts, built when they are first needed."""
        if self._contracts is None:
            from openbox_agentrt.acel.contracts.spec import build_contract
            from openbox_agentrt.acel.match.patterns import compile_later

            compile_later(_patterns_in(self._specs))
            self._contracts = tuple(build_contract(spec) for spec in self._specs)
        return self._contracts

    @property
    def local(self) -> tuple[Template, ...]:
        """Give the contracts that the session's own log is memory enough for."""
        of_fleet = self.of_fleet
        return tuple(each for each in self.contracts if each not in of_fleet) if of_fleet else self.contracts

    @property
    def of_fleet(self) -> tuple[Template, ...]:
        """Give the contracts that count in a shared store."""
        return tuple(contract for contract in self.contracts if contract.reach.is_fleet)

    def may_object(self, tool: str, args: Mapping[str, Any]) -> bool:
        """Tell whether a contract may object to a call, or learn from it. A "no" is certain."""
        # Names in other letters can be written in several ways; the engine knows them.
        if self._names is None or not tool.isascii():
            return True
        if tool not in self._names:
            return False
        patterns = self._names[tool]
        return patterns is None or any(_may_contain(args, field, pattern) for pattern, field in patterns)

    def surely_allow(self, tool: str, begun: Mapping[str, int], done: Mapping[str, int]) -> bool:
        """
        Tell whether a call will be let through, whatever its arguments are. A "yes" is certain.

        Args:
            tool: The tool.
            begun: How many calls of each tool of the session began.
            done: How many of them succeeded.
        """
        comparisons = self._clear.get(tool)
        return comparisons is not None and is_clear(comparisons, begun, done)


def load_hook_rules(path: str | os.PathLike[str], folder: StateFolder) -> HookRules:
    """
    Read a rules file.

    Args:
        path: The file.
        folder: Where it is kept as it was understood.

    Raises:
        HookFault: It is missing, or is no rules file.
    """
    data = _bytes_of(path)
    # The ending says how it is read, the version by whom.
    about = f"{__version__} {os.path.splitext(os.fspath(path))[1]}\n"
    name = f"rules-{sha256(about.encode() + data).hexdigest()[:40]}.json"
    compiled = _read_compiled(folder, name)
    if compiled is not None:
        return HookRules(compiled)
    # Of the same bytes, so that a file that is being changed is not kept under the name of another.
    compiled, contracts = _compile(data, os.fspath(path))
    if _is_data(compiled):
        folder.replace_file(name, json.dumps(compiled, separators=(",", ":")).encode())
    return HookRules(compiled, contracts)


def _bytes_of(path: str | os.PathLike[str]) -> bytes:
    try:
        with open(os.path.expanduser(path), "rb") as file:
            return file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise HookFault(f"the rules cannot be read: {os.fspath(path)}: {error.strerror}") from error


def _read_compiled(folder: StateFolder, name: str) -> dict[str, Any] | None:
    if not folder.exists(name):
        return None
    with open(folder.open_file(name, os.O_RDONLY), "rb") as file:
        try:
            compiled = json.load(file)
        except (ValueError, RecursionError):
            # It was not written here, and can be made again.
            return None
    needed = {"contracts", "state", "rules_hash", "hash", "names", "clear"}
    return compiled if isinstance(compiled, dict) and needed <= compiled.keys() else None


def _patterns_in(data: Any) -> Iterator[str]:
    """Find the patterns of contracts, which were built before they were kept."""
    if isinstance(data, dict):
        if isinstance(data.get("matches"), str):
            yield data["matches"]
        data = list(data.values())
    if isinstance(data, list):
        for part in data:
            yield from _patterns_in(part)


def _compile(data: bytes, name: str) -> tuple[dict[str, Any], tuple[Template, ...]]:
    from openbox_agentrt.acel.rulesfile import ConfigError
    from openbox_agentrt.acel.rulesfile.document import decode_document
    from openbox_agentrt.acel.rulesfile.parts import Parts
    from openbox_agentrt.acel.rulesfile.rules import rules_of

    try:
        document = decode_document(data, name=name)
        rules = rules_of(document)
        specs = [spec for _, spec in Parts(document).contracts]
    except ConfigError as error:
        raise HookFault(f"the rules cannot be read: {error}") from error
    text = json.dumps([rules.rules_hash, rules.state], sort_keys=True, default=str)
    names = _names_of(rules.contracts)
    compiled = {
        "contracts": specs,
        "state": rules.state,
        "rules_hash": rules.rules_hash,
        "hash": text_digest(text)[:32],
        "names": names,
        "clear": {} if names is None else clear_tools(rules.contracts, list(names)),
    }
    return compiled, rules.contracts


def _names_of(contracts: tuple[Template, ...]) -> dict[str, list[list[str]] | None] | None:
    """
    Say which tools the contracts are about, and which of their calls a contract may object to.

    Returns:
        Patterns and fields for each tool, or None for all of its calls; None if a contract names no tools.
    """
    names: dict[str, list[list[str]] | None] = {}
    for contract in contracts:
        if contract.names is None:
            return None
        guarding = guarding_roles(contract)
        for role in contract.roles:
            for tool, pattern in _calls_meant(role.selector.form()):
                known = names.setdefault(tool, [])
                if role not in guarding:
                    continue
                names[tool] = None if pattern is None or known is None else [*known, pattern]
        # What its conditions read of other calls.
        names |= dict.fromkeys(watch.tool for watch in contract.watches)
    return names


def _calls_meant(form: list[Any]) -> Iterator[tuple[str, list[str] | None]]:
    kind, *rest = form
    if kind == "any_of":
        for one in rest:
            yield from _calls_meant(one)
    elif kind == "matching":
        tool, pattern, field, *_ = rest
        yield tool, [pattern, field]
    else:
        yield rest[0], None


def _may_contain(args: Mapping[str, Any], field: str, pattern: str) -> bool:
    value = args.get(field)
    if "." in field or field == "*" or not isinstance(value, str | None):
        # What may be found in it is for the engine to say.
        return True
    if value is None:
        return False
    from openbox_agentrt.acel.match.patterns import compile_pattern

    try:
        return compile_pattern(pattern).search(value) is not None
    except UnicodeEncodeError:
        # Half of a character, which no pattern is searched for in: the engine knows what that means.
        return True


def _is_data(compiled: dict[str, Any]) -> bool:
    """Tell whether what a file means survives being written down."""
    try:
        written: object = json.loads(json.dumps(compiled, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return False
    return written == compiled
