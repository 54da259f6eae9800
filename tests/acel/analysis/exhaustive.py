"""
Every sequence of calls that there is, up to a length, on real sessions: what they say of the rules.

It knows nothing of what a search looks at. A call that is refused changes nothing here, so no sequence
goes on behind one.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from openbox_agentrt.acel import Session
from openbox_agentrt.acel.contracts.base import TemporalContract
from openbox_agentrt.acel.memory.periodic import span_of
from openbox_agentrt.acel.rulesfile import Rules, parse_rules

__all__ = ("Letter", "Seen", "letters_of", "random_rules", "see")

TOOLS = ("a", "b", "c")
CONDITIONS = ("args.n <= 2", "args.n != 1", 'args.command == "x"', "!has(args.k)")
FACTS = (
    {"tool": "c", "as": "f", "key": "k", "values": {"v": "v"}},
    {"tool": "b", "as": "g", "values": {"w": "v"}},
)
TOLD = (
    'facts.f[args.k].v == "p"',
    '!(args.k in facts.f) || facts.f[args.k].v != "p"',
    'facts.g.w == "p"',
    "session.c < 2",
    "session.b > 0",
    'facts.g.w == "p" && session.c < 1',
)
AT_END = ('facts.g.w == "p"', "session.c > 0", "session.b < 2")
_START = 1_780_315_200.0


class Letter(NamedTuple):
    """One thing that happens: a call and how it ends, or a time in which nothing does."""

    tool: str = ""
    args: tuple[tuple[str, Any], ...] = ()
    ends: Literal["ok", "failed", "never"] = "ok"
    seconds: float = 0.0
    period: Any = None
    result: str | None = None


@dataclass
class Seen:
    """
    Hold what every sequence came to.

    Attributes:
        verdicts: Of each sequence whose calls were let through, which further calls are.
        unmet: Of each such sequence, what is unmet at its end.
        allowed: The tools of which a call was let through.
    """

    verdicts: dict[tuple[Letter, ...], tuple[bool, ...]] = field(default_factory=dict)
    unmet: dict[tuple[Letter, ...], tuple[str, ...]] = field(default_factory=dict)
    allowed: set[str] = field(default_factory=set)


def see(
    contracts: Sequence[TemporalContract],
    letters: Sequence[Letter],
    length: int,
    *,
    begin: Iterable[Letter] = (),
) -> Seen:
    """Let every sequence happen that begins with some letters and goes on with so many more."""
    seen = Seen()
    waiting = [tuple(begin)]
    while waiting:
        path = waiting.pop()
        session, _flying = _session_after(contracts, path)
        allowed = tuple(letter.tool == "" or _would(session, letter) for letter in letters)
        seen.verdicts[path] = allowed
        seen.unmet[path] = tuple(session.unmet())
        seen.allowed |= {letter.tool for letter, let in zip(letters, allowed, strict=True) if let}
        if len(path) - len(tuple(begin)) < length - 1:
            waiting += [(*path, letter) for letter, let in zip(letters, allowed, strict=True) if let]
    return seen


def _would(session: Session, letter: Letter) -> bool:
    return session.would(letter.tool, dict(letter.args)) is None


def _session_after(
    contracts: Sequence[TemporalContract], path: Iterable[Letter]
) -> tuple[Session, list[Any]]:
    """Give a session in which letters happened, and its calls that are under way: dropped, they would end."""
    now = [_START]
    session = Session(
        contracts=contracts,
        halt_on_violation=False,
        clock=lambda: now[0],
        trace_window=0,
        max_trace=0,
        fleet="alone",
    )
    flying: list[Any] = []
    for letter in path:
        if letter.period is not None:
            per, zone = letter.period
            now[0] = span_of(per, zone, now[0])[1]
        now[0] += letter.seconds
        if letter.tool:
            call = session.reserve(letter.tool, dict(letter.args))
            if letter.ends == "never":
                flying.append(call)
            elif call.allowed:
                told = None if letter.result is None else {"v": letter.result}
                call.commit(result=told) if letter.ends == "ok" else call.abort(ran=True)
    return session, flying


def random_rules(random_: random.Random, *, most: int = 4, plain: bool = False) -> Rules:
    """Make small rules over three tools."""
    count = random_.randint(2, most)
    said = [_contract(random_, plain) for _ in range(count)]
    return parse_rules({"contracts": said, "facts": list(FACTS)})


def _contract(random_: random.Random, plain: bool) -> dict[str, Any]:
    one, two = random_.sample(TOOLS, 2)
    first: Any = one
    n = random_.choice([0, 1, 2])
    if not plain:
        pattern = {"tool": one, "matches": random_.choice(["x", "^y", "xy"])}
        first = random_.choice([one, one, one, "*", {"any_of": [one, two]}, pattern])
    options: dict[str, Any] = {}
    args: dict[str, list[Any]] = {
        "must_precede": [first, two],
        "never_after": [one, two],
        "mutually_exclusive": [one, two],
        "alternate_precedence": [one, two],
        "chain_precedence": [one, two],
        "response": [one, two],
        "at_most_n_times": [first, n],
        "existence": [one, n + 1],
        "init": [one],
        "never": [first],
        "required_before_session_end": [one],
    }
    if not plain:
        args |= {
            "at_most_in_flight": [first, 1 + n],
            "requires": [first, random_.choice((*CONDITIONS, *TOLD))],
            "at_most_total": [one, "n", 1 + n],
            "rate_limit": [first, 1 + n, 60],
            "only": [{"any_of": [one, two]}],
        }
    template = random_.choice(sorted(args))
    said = {"template": template, "args": args[template]}
    if plain:
        return said
    if template in ("at_most_n_times", "must_precede", "never_after") and random_.random() < 0.3:
        options["key"] = "k"
    if template in ("at_most_n_times", "at_most_total") and random_.random() < 0.3:
        options["per"] = random_.choice(["hour", "day"])
    if template not in ("existence", "required_before_session_end") and random_.random() < 0.15:
        options["when"] = random_.choice(["args.n > 1", 'args.command != "q"', *TOLD])
    if template in ("existence", "required_before_session_end") and random_.random() < 0.4:
        options["when"] = random_.choice(AT_END)
    if random_.random() < 0.1:
        options["mode"] = "shadow"
    return {**said, **options}


def letters_of(rules: Rules) -> list[Letter]:
    """List what can happen under rules that they can tell apart."""
    text = " ".join(contract.spec for contract in rules.contracts)
    args: list[tuple[tuple[str, Any], ...]] = [()]
    args += [(("k", key),) for key in ("1", "2") if "key=k" in text or "args.k" in text]
    args += [(("n", n),) for n in (1, 2, 3) if "args.n" in text or "at_most_total" in text]
    args += [(("command", some),) for some in ("x", "xy", "y", "q") if "command" in text]
    letters = [Letter(tool, some) for tool in TOOLS for some in args]
    letters += [Letter("c", (("k", key),), result=v) for key in "12" for v in "pq" if "facts.f" in text]
    letters += [Letter("b", result=v) for v in "pq" if "facts.g" in text]
    letters += [Letter(tool, some, "failed") for tool in TOOLS[:2] for some in args[:2]]
    letters += [Letter(tool, some, "never") for tool in TOOLS for some in args[:2] if "in_flight" in text]
    letters += [Letter(seconds=61.0)] if "rate_limit" in text else []
    letters += [Letter(period=(per, "UTC")) for per in ("hour", "day") if f"per={per}" in text]
    return letters
