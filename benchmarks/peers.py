"""
The same rules for every engine: this one, acel-core, Cedar and Rego.

Cedar and Rego decide about one request and remember nothing, so somebody else has to keep the session. Here
that costs nothing: they are given what they need to know of it as a constant. Rules come in three kinds:
"only after", "at most n times", "never after".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import openbox_agentrt.acel as ours

from .timing import OURS

TOOL = "pay"
FIRST = "check"
ARGUMENTS = {"amount": 12, "to": "ada"}
RESULT = {"ok": True}
MANY = 10**9
MOST_REGO_RULES = 1000
"""regopy takes two minutes to build ten times as many."""

Once = Callable[[], object]


def contracts(module: Any, total: int, about: int) -> list[Any]:
    """`total` contracts of `module`, the first `about` of them about `TOOL`."""
    made = []
    for number in range(total):
        tool = TOOL if number < about else f"tool_{number}"
        first = FIRST if number < about else f"first_{number}"
        kinds = (
            lambda tool=tool, first=first: module.must_precede(first, tool),
            lambda tool=tool: module.at_most_n_times(tool, MANY),
            lambda tool=tool, number=number: module.never_after(f"end_{number}", tool),
        )
        made.append(kinds[number % 3]())
    return made


def our_session(total: int, about: int, **options: Any) -> ours.Session:
    """A session of ours in which `TOOL` may be called."""
    session = ours.Session(contracts=contracts(ours, total, about), **options)
    session.call(FIRST, {}, result=RESULT)
    return session


def our_call(session: ours.Session, tool: str = TOOL) -> Once:
    """Reserve and commit."""
    reserve = session.reserve
    return lambda: reserve(tool, ARGUMENTS).commit(RESULT)


def acel_session(total: int, about: int) -> Any:
    """The same session of acel-core."""
    import acel

    session = acel.Session()
    for contract in contracts(acel, total, about):
        session.add_contract(contract)
    session.call(FIRST, {}, result=RESULT)
    return session


def acel_call(session: Any, tool: str = TOOL) -> Once:
    """acel-core's two halves of a call."""
    return lambda: session.postcheck(tool, session.precheck(tool, ARGUMENTS), RESULT)


def cedar_call(total: int, about: int) -> Once:
    """A decision of Cedar, whose policies have been parsed."""
    import cedarpy

    policies = ["permit(principal, action, resource);"]
    for number in range(total):
        action = TOOL if number < about else f"tool_{number}"
        first = FIRST if number < about else f"first_{number}"
        condition = (
            f'!context.seen.contains("{first}")',
            f"context.calls >= {MANY}",
            f'context.seen.contains("end_{number}")',
        )[number % 3]
        policies.append(f'forbid(principal, action == Action::"{action}", resource) when {{ {condition} }};')
    parsed = cedarpy.PolicySet.from_str("\n".join(policies))
    entities = cedarpy.Entities.from_json_str("[]")
    request = {
        "principal": 'Agent::"a"',
        "action": f'Action::"{TOOL}"',
        "resource": 'Tool::"t"',
        "context": {"seen": [FIRST], "calls": 1},
    }
    if not cedarpy.is_authorized(request, parsed, entities).allowed:
        raise AssertionError("cedar refuses what the others allow")
    return lambda: cedarpy.is_authorized(request, parsed, entities)


def rego_call(total: int, about: int) -> Once:
    """A decision of Rego, whose policy has been built."""
    import re2  # noqa: F401  # loaded after regopy, it would end the process
    import regopy

    rules = ["package bench", "import rego.v1", 'default answer := "allow"']
    for number in range(total):
        tool = TOOL if number < about else f"tool_{number}"
        first = FIRST if number < about else f"first_{number}"
        condition = (
            f"not input.seen.{first}",
            f"input.calls >= {MANY}",
            f"input.seen.end_{number}",
        )[number % 3]
        rules.append(f'answer := "deny" if {{ input.tool == "{tool}"; {condition} }}')
    rego = regopy.Interpreter()
    rego.add_module("bench.rego", "\n".join(rules))
    bundle = rego.build("data.bench.answer")
    event = {"tool": TOOL, "seen": {FIRST: True}, "calls": 1, "args": ARGUMENTS}

    def once() -> object:
        rego.set_input(regopy.Input(event))
        return rego.query_bundle(bundle)

    if "allow" not in str(once()):
        raise AssertionError("rego refuses what the others allow")
    return once


def contenders(total: int, about: int) -> dict[str, Once]:
    """Every engine that can hold `total` rules."""
    found = {
        OURS: our_call(our_session(total, about, max_trace=1000)),
        "acel-core": acel_call(acel_session(total, about)),
        "cedarpy": cedar_call(total, about),
    }
    if total <= MOST_REGO_RULES:
        found["regopy"] = rego_call(total, about)
    return found
