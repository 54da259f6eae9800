"""What is read out of the text of a condition."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openbox_agentrt._extras import MissingExtraError
from openbox_agentrt.acel import fact, requires
from openbox_agentrt.acel.condition import runtime
from openbox_agentrt.acel.condition.condition import Condition
from openbox_agentrt.acel.condition.source import ConditionError
from openbox_agentrt.acel.rulesfile import ConfigError, parse_rules

FACTS = (
    fact("get", "order", key="id", values={"status": "status", "items": "items.*.id"}),
    fact("find", "customer", values={"id": "result"}),
)


def reads(text: str) -> tuple[Any, ...]:
    found = Condition(text, FACTS).reads
    args = None if found.args is None else sorted(found.args)
    return args, sorted(found.facts), sorted(found.tools), found.now, found.subject


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("args.amount <= 5", (["amount"], [], [], False, False)),
        ("args['order-id'] == ''", (["order-id"], [], [], False, False)),
        ("args.`order-id` == ''", (["order-id"], [], [], False, False)),
        ("args.a.args == args.b", (["a", "b"], [], [], False, False)),
        ("size(args) > 1", (None, [], [], False, False)),
        ("args[args.a] == 1", (None, [], [], False, False)),
        ("facts.order[args.id].status == 'x'", (["id"], ["order"], [], False, False)),
        ("args.id in facts.order", (["id"], ["order"], [], False, False)),
        ("!(args.a.b[0].c in facts.order)", (["a"], ["order"], [], False, False)),
        ("args.ids.all(one, one in facts.order)", (["ids"], ["order"], [], False, False)),
        ("args.ids[0].x.y(1) in facts.order || true", None),
        ("string(args.id) in facts.order", (["id"], ["order"], [], False, False)),
        ("(args.a + 'x') in facts.order", (["a"], ["order"], [], False, False)),
        ("'a' in facts.order[facts.order[args.id].status].items", (["id"], ["order"], [], False, False)),
        ("facts.customer.id == args.id", (["id"], ["customer"], [], False, False)),
        ("has(facts.order[args.id].status)", (["id"], ["order"], [], False, False)),
        ("session.refund < 2 && session['a-b'] == 0", ([], [], ["a-b", "refund"], False, False)),
        ("now > timestamp('2020-01-01T00:00:00Z')", ([], [], [], True, False)),
        ("subject.tenant == 'a'", ([], [], [], False, True)),
        ("'facts.other[args.x]' == args.id // facts.none, now", (["id"], [], [], False, False)),
        ('r"\\d" == args.id || """ now "args.b" """ == args.c', (["c", "id"], [], [], False, False)),
        ("'it\\'s now' == args.a", (["a"], [], [], False, False)),
        ("{'now': 1}.now == 1 && args.a.now == 1", (["a"], [], [], False, False)),
        ("-1 < args.n && args.n < 1.5e+3 && 0x1F > 2", (["n"], [], [], False, False)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_names_are_found(text: str, expected: Any) -> None:
    """Only as names: not in texts, comments, and after a point."""
    if expected is None:
        with pytest.raises(ConditionError):
            reads(text)
    else:
        assert reads(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("facts.nope.a == 1", "unknown fact 'nope', declared are: customer, order"),
        ("facts == args", "facts must be followed by the name of one"),
        ("facts['order'] == {}", "facts must be followed by the name of one"),
        ("facts.customer[args.id].id == ''", "facts.customer has no key: write facts.customer.value"),
        ("facts.customer[0] == ''", "facts.customer has no key"),
        ("args.id in facts.customer", "facts.customer has no key"),
        ("size(facts.order) > 1", "facts.order has a key: facts.order[key], or key in facts.order"),
        ("facts.order[args.id].state == 1", "fact 'order' has no value 'state', it has items, status"),
        ("facts.order[args.id]['state'] == 1", "fact 'order' has no value 'state', it has items, status"),
        ("facts.customer.name == 'a'", "fact 'customer' has no value 'name', it has id"),
        ("args.a + 'x' in facts.order", "put what stands before 'in facts.order' in parentheses"),
        ("!args.a in facts.order", "put what stands before 'in facts.order' in parentheses"),
        ("-args.a in facts.order", "put what stands before 'in facts.order' in parentheses"),
        ("size(session) > 1", "session must be followed by the name of a tool"),
        ("arg.x == 1", "unknown name 'arg.x', there are args, facts, now, session, subject, sum"),
        ("fact('order', 'x').status == ''", "unknown name 'fact'"),
        ("total(args.x) > 1", "unknown name 'total'"),
        ("args.a = 1", "Syntax error"),
        ("args.a ==", "Syntax error"),
        ("1 + 'a' > 2", "found no matching overload for '_+_' applied to '(int, string)' (column 3)"),
        ("now > 5", "found no matching overload"),
        ("session.a == 'x'", "found no matching overload"),
        ("size(args.x)", "must be true or false, is of type int"),
        ("'" + "x" * 5000 + "' == args.a", "a condition has at most 4096 characters"),
        ("   ", "a condition must be text"),
        ("true ||\n args.a > (", "line"),
    ],
    ids=lambda value: value[:40],
)
def test_what_is_not_there_is_an_error(text: str, message: str) -> None:
    """When the rules are read, and not when a call comes. In one line."""
    with pytest.raises(ConditionError) as caught:
        Condition(text, FACTS)

    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


texts = st.text(alphabet="ab .'\"[]()/\\\n=factsnowr", max_size=12)


def literal(text: str) -> str:
    inside = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{inside}"'


class Nothing:
    """Knows no fact."""

    def fact(self, name: str, key: Any) -> dict[str, Any]:
        raise AssertionError

    def known(self, name: str, key: Any) -> bool:
        return False


@settings(max_examples=150, deadline=None)
@given(parts=st.lists(texts, min_size=1, max_size=3), comment=st.text(alphabet="a'\"now facts.", max_size=8))
def test_texts_stay_what_they_are(parts: list[str], comment: str) -> None:
    """Whatever stands in them: the condition that is evaluated compares the same texts."""
    text = " && ".join(f"args.t{place} == {literal(part)}" for place, part in enumerate(parts))
    condition = Condition(f"{text} // {comment}\n && !('a' in facts.order)", FACTS)
    args = {f"t{place}": part for place, part in enumerate(parts)}

    assert condition.program.ask({"args": args}, Nothing()) is True
    assert condition.program.ask({"args": {**args, "t0": args["t0"] + "!"}}, Nothing()) is False
    assert Condition(condition.form, FACTS) == condition


def test_a_condition_is_pickled_as_its_text() -> None:
    """What was compiled belongs to a process."""
    contract = requires("a", "args.id in facts.order", facts=FACTS)

    copy = pickle.loads(pickle.dumps(contract))

    assert copy.conditions == contract.conditions
    assert hash(copy.conditions) == hash(contract.conditions)


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules with a condition need the extra; the error says which, with file and line."""
    for cached in (runtime.check, runtime.compiled, runtime._checking, runtime._evaluating):
        cached.cache_clear()
    monkeypatch.setitem(sys.modules, "cel_expr_python.cel", None)

    with pytest.raises(MissingExtraError, match=r"the extra 'conditions'"):
        requires("pay", "args.amount < 7")
    with pytest.raises(ConfigError, match=r"rules.yaml:2: contracts\[0\].check: .*sdk-python\[conditions\]"):
        parse_rules("contracts:\n- {template: requires, args: [a, 'args.b < 8']}", name="rules.yaml")
    assert parse_rules("contracts: [{template: never, args: [a]}]").contracts


USES = {
    "re2": "import re2; assert re2.search('a+', 'caat')",
    "regopy": "import regopy; assert regopy.Interpreter().query('x := 1')",
    "cel": (
        "from cel_expr_python import cel; env = cel.NewEnv(variables={'a': cel.Type.STRING}); "
        "assert env.compile(\"a.matches('^x+$')\").eval(data={'a': 'xx'}).value()"
    ),
}


@pytest.mark.parametrize("order", list(itertools.permutations(USES)), ids="-".join)
def test_the_libraries_live_in_one_process(order: tuple[str, ...]) -> None:
    """Three of them bring RE2 or more of C++ along; in whatever order they are loaded, all go on working."""
    program = "\n".join([*(USES[name] for name in order), *(USES[name] for name in order), "print('alive')"])

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False
    )

    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr
