"""One engine for one session after the other: what the one remembered, the next knows nothing of."""

from __future__ import annotations

import pickle
import random
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

from openbox_agentrt.acel import Session
from openbox_agentrt.acel.engine.engine import Engine
from openbox_agentrt.acel.engine.plan.rule_set import shared_rules
from openbox_agentrt.acel.engine.snapshot import lent_engine
from openbox_agentrt.acel.engine.snapshot.lent_engine import CellNumbers, LentEngine
from openbox_agentrt.acel.memory.clock import SetClock
from openbox_agentrt.acel.rulesfile import parse_rules
from openbox_agentrt.acel.session import engine_of

EVERY_MEMORY = parse_rules(
    {
        "contracts": [
            {"template": "must_precede", "args": ["look", "pay"], "key": "k", "since": "shut"},
            {"template": "must_precede", "args": ["look", "note"], "since": "shut"},
            {"template": "must_precede", "args": ["look", "note"], "within": 50},
            {"template": "alternate_precedence", "args": ["look", "note"]},
            {"template": "chain_precedence", "args": ["look", "note"]},
            {"template": "chain_precedence", "args": ["look", "note"], "key": "k", "within": 20},
            {"template": "at_most_total", "args": ["pay", "amount", 999], "within": 30},
            {"template": "at_most_total", "args": ["pay", "amount", 999], "per": "hour"},
            {"template": "at_most_n_times", "args": ["look", 99], "within": 60},
            {"template": "at_most_n_times", "args": ["look", 99]},
            {"template": "at_most_in_flight", "args": ["look", 9]},
            {"template": "response", "args": ["pay", "note"], "within": 20},
            {"template": "max_distinct", "args": ["look", "k", 9]},
            {"template": "came_from", "args": ["note", "k", [{"tool": "look", "path": "id"}, "prompt"]]},
            {"template": "keeps_out", "args": ["shut", "k", {"tool": "look", "path": "id"}]},
            {"template": "requires", "args": ["note", 'facts.account[args.k].open == "y"']},
        ],
        "facts": [{"tool": "look", "as": "account", "key": "k", "values": {"open": "open"}}],
    }
)


def lent(numbers: CellNumbers) -> tuple[LentEngine, Engine, SetClock]:
    clock = SetClock()
    rules = shared_rules(EVERY_MEMORY.contracts, alone=True)
    engine = engine_of(Session(contracts=rules, mode="shadow", clock=clock))
    return LentEngine(engine, numbers), engine, clock


def use(engine: Engine, clock: SetClock, seed: int) -> None:
    random_ = random.Random(seed)
    for number in range(60):
        clock.now = 1e6 + number * random_.choice((1.0, 90.0))
        tool = random_.choice(("look", "look", "pay", "note", "shut", "user_prompt"))
        args = {"k": random_.choice("abc"), "amount": random_.choice((1, 2.5)), "prompt": "pay a, please"}
        call = engine.reserve(tool, args, False)
        end = random_.choice(("ok", "ok", "failed", "lost", "undone"))
        if end == "ok":
            call.commit({"id": random_.choice(("a", "a long secret")), "open": random_.choice("yn")})
        elif end == "lost":
            call.lose()
        else:
            call.abort(ran=end == "failed")


def parts(value: object) -> object:
    """Take a piece of memory apart, down to plain values; clocks and code are not what it remembers."""
    if isinstance(value, dict):
        return {name: parts(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | deque | set | frozenset):
        return [parts(inner) for inner in value]
    if type(value).__module__.startswith("openbox_agentrt.acel.memory"):
        return {name: parts(inner) for name, inner in _slots(value) if name not in ("timeline", "_digests")}
    return value if type(value) in (int, str, float, bool) else type(value).__name__


def _slots(value: object) -> Iterator[tuple[str, Any]]:
    for kind in type(value).__mro__:
        names = kind.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            yield name, getattr(value, name, None)


@pytest.mark.parametrize("seed", range(3))
def test_a_session_that_begins_finds_memory_as_a_new_engine_has_it(seed: int) -> None:
    """Each slot of each piece: also what no dump tells, such as which steps were seen."""
    numbers = CellNumbers()
    lending, engine, clock = lent(numbers)
    use(engine, clock, seed)
    used = {number: parts(cell) for number, cell in lending._every_cell().items()}
    lending.set_aside()
    clock.now = 0.0
    lending.begin({})

    memory = engine.store.memory
    new = {number: memory._make(cell) for number, cell in enumerate(numbers.cells)}
    assert len(new) > 15
    differing = [
        number for number, cell in lending._every_cell().items() if parts(cell) != parts(new[number])
    ]
    assert [numbers.cells[number].name() for number in differing] == []
    assert sum(used[number] != parts(cell) for number, cell in new.items()) > 12
    assert (engine.store.step, engine.store.violated, memory.now) == (0, frozenset(), None)


@pytest.mark.parametrize("seed", range(3))
def test_a_session_goes_on_in_another_engine(seed: int) -> None:
    """Though that one has judged others, knows other tools, and gets it as bytes."""
    numbers = CellNumbers()
    first, engine, clock = lent(numbers)
    use(engine, clock, seed)
    aside = first.set_aside()
    second, other, later = lent(numbers)
    use(other, later, seed + 100)
    second.set_aside()
    later.now = clock.now
    second.go_on(lent_engine.SetAside(*pickle.loads(pickle.dumps(tuple(aside)))))

    assert second.set_aside() == aside
    for tool in ("look", "pay", "note", "shut"):
        args = {"k": "a", "amount": 1}
        assert str(other.would(tool, args)) == str(engine.would(tool, args))


def test_plans_of_tools_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lent_engine, "MOST_PLANS", 5)
    lending, engine, _ = lent(CellNumbers())
    for number in range(20):
        lending.begin({})
        engine.reserve(f"tool-{number}", {}, False).commit(None)
        lending.set_aside()
        assert len(engine.store.book.plans) <= 6
