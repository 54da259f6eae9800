"""Policies in Rego: what they can say, what is refused when they are loaded, what cannot slip past them."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.local_core import LocalCore, PolicyError

Make = Callable[..., Any]


@pytest.fixture
def kept_in() -> str:
    """What Rego decides does not depend on where a Core keeps things, and each Core starts a process."""
    return "memory"


@pytest.fixture
def rego(tmp_path: Path) -> Callable[[str], str]:
    """Writes a policy file and says where it is."""

    def write(text: str) -> str:
        path = tmp_path / "policy.rego"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def blocks_if(condition: str, package: str = "p") -> str:
    return (
        f'package {package}\nimport rego.v1\ndefault result := {{"decision": "CONTINUE"}}\n'
        f'result := {{"decision": "BLOCK", "reason": "found"}} if {{ {condition} }}\n'
    )


@pytest.mark.parametrize(
    ("decision", "verdict"),
    [
        ("CONTINUE", "allow"),
        ("ALLOW", "allow"),
        ("CONSTRAIN", "constrain"),
        ("REQUIRE_APPROVAL", "require_approval"),
        ("BLOCK", "block"),
        ("HALT", "halt"),
    ],
)
def test_every_decision(make: Make, rego: Any, decision: str, verdict: str) -> None:
    """Each decision of the policy language has its verdict on the wire."""
    talk = make(rego(f'package p\nresult := {{"decision": "{decision}", "reason": "because"}}\n'))

    answer = talk.send()

    assert (answer["verdict"], answer["reason"], answer["policy_id"]) == (verdict, "because", "local/p")


@pytest.mark.parametrize("package", ["p", "a.b.c", 'a["b-c"]', 'a["b/c"].d', "openbox.policy", "system"])
def test_any_package_name(make: Make, rego: Any, package: str) -> None:
    """The rule is found whatever the package is called."""
    talk = make(rego(blocks_if('input.activity_type == "refund"', package)))

    assert talk.send()["verdict"] == "block"


def test_older_syntax(make: Make, rego: Any) -> None:
    """Rules without `if` are Rego as well."""
    talk = make(rego('package p\nresult = {"decision": "BLOCK"} { input.activity_type == "refund" }\n'))

    assert talk.send()["verdict"] == "block"


def test_other_values_of_the_result_reach_the_answer(make: Make, rego: Any) -> None:
    """Constraints, patches and scores are the policy's to give, with their types."""
    result = (
        '{"decision": "CONSTRAIN", "constraints": ["run_in_sandbox"], "risk_score": 0.5,'
        ' "metadata": {"n": 3, "none": null, "yes": true, "no": false}}'
    )
    answer = make(rego(f"package p\nresult := {result}\n")).send()

    assert answer["constraints"] == ["run_in_sandbox"]
    assert answer["risk_score"] == 0.5
    assert answer["metadata"] == {"n": 3, "none": None, "yes": True, "no": False}


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        pytest.param("package p\n\nresult := foo bar\n", 3, "invalid literal", id="syntax"),
        pytest.param("# é😀\npackage p\n\nresult := {\n", 4, "this is unclosed", id="after other alphabets"),
        pytest.param("package p\r\n\r\nresult := := 3\r\n", 3, "invalid assignment operator", id="crlf"),
        pytest.param("result := 1\n", 1, "has no 'package'", id="no package"),
        pytest.param("", 1, "has no 'package'", id="empty"),
        pytest.param(
            "# x\npackage a.b\nother := 1\n", 2, "package 'a.b' has no rule 'result'", id="no result"
        ),
        pytest.param(
            "package p\nresult := 1 if {\n  regex.match(`(?i)x`, input.a)\n}\n",
            3,
            "flags in regular expressions are not understood here: use lower(...)",
            id="regex flags",
        ),
        pytest.param(
            'package p\nresult := 1 if input.a == "\\u00e9"\n',
            2,
            r"\u escapes are not understood here: write the character itself",
            id="unicode escape",
        ),
        pytest.param(
            "package p\nresult := 1 if regex.match(`\\p{L}`, input.a)\n",
            2,
            r"\p classes in regular expressions are not understood here",
            id="unicode class",
        ),
    ],
)
def test_a_broken_policy_names_its_line(
    rego: Any, text: str, line: int, problem: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """What is wrong with a policy is one line, at construction, and nothing is printed besides."""
    path = rego(text)

    with pytest.raises(PolicyError) as caught:
        LocalCore(path)

    assert str(caught.value) == f"policy {path}:{line}: {problem}"
    assert (caught.value.path, caught.value.line) == (path, line)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            "package p\nresult := nope(1)\n",
            "fails on WorkflowStarted: Function not found: nope",
            id="unknown function",
        ),
        pytest.param(
            'package p\nresult := {"decision": "BLOCK"} if a\na if b\nb if a\n',
            "fails on WorkflowStarted: Recursion detected in rule body: data.p.result",
            id="recursion",
        ),
        pytest.param(
            'package p\nresult := {"decision": "BLOCK"} if true\nresult := {"decision": "HALT"} if true\n',
            "fails on WorkflowStarted: complete rules must not produce multiple outputs",
            id="conflict",
        ),
        pytest.param(
            'package p\ndefault result := {"decision": "ALLOW"}\n'
            'result := {"decision": "BLOCK"} if regex.match(`(x`, input.activity_input[0].prompt)\n',
            "fails on ActivityStarted: error parsing regexp: missing closing )",
            id="broken regular expression",
        ),
    ],
)
def test_a_policy_that_cannot_be_evaluated_is_refused(rego: Any, text: str, problem: str) -> None:
    """What a plain event brings out shows at construction as well."""
    path = rego(text)

    with pytest.raises(PolicyError) as caught:
        LocalCore(path)

    assert str(caught.value) == f"policy {path}: {problem}"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A path that leads nowhere is one line."""
    path = tmp_path / "nowhere.rego"

    with pytest.raises(PolicyError, match=f"^policy {path}: no such file or directory$"):
        LocalCore(path)


@pytest.mark.parametrize("path", [".", "a\0b"])
def test_a_path_that_is_no_file(path: str) -> None:
    """A folder, or a name that no file can have, is one line too."""
    with pytest.raises(PolicyError):
        LocalCore(path)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    """A binary file is not a policy."""
    path = tmp_path / "policy.rego"
    path.write_bytes(b"package p\n\xff\xfe")

    with pytest.raises(PolicyError, match="is not a text in UTF-8"):
        LocalCore(path)


def test_policy_error_survives_pickling() -> None:
    """The error crosses process boundaries with its data."""
    error = pickle.loads(pickle.dumps(PolicyError(path="p.rego", line=3, problem="x")))

    assert (error.path, error.line, error.problem) == ("p.rego", 3, "x")


def test_an_undefined_result_blocks(make: Make, rego: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A policy without a default says nothing about most events; that is no permission."""
    talk = make(rego('package p\nresult := {"decision": "ALLOW"} if input.activity_type == "other"\n'))

    with caplog.at_level(logging.WARNING):
        answer = talk.send()

    assert (answer["verdict"], answer["reason"]) == ("block", "the policy says nothing about this event")
    assert "the policy says nothing about this event" in caplog.text


def test_a_failing_function_blocks(make: Make, rego: Any) -> None:
    """A rule that fails on an input must not count as one that did not match."""
    talk = make(rego(blocks_if('startswith(input.activity_input[0].id, "protected")')))

    assert talk.send(activity_input=[{"id": "open"}])["verdict"] == "allow"
    answer = talk.send(activity_id="a2", activity_input=[{"id": ["protected"]}])

    assert answer["verdict"] == "block"
    assert answer["reason"].startswith("the policy failed: startswith:")


@pytest.mark.parametrize(
    "value",
    [
        pytest.param('"MAYBE"', id="unknown decision"),
        pytest.param("3", id="number"),
        pytest.param("null", id="null"),
        pytest.param('["BLOCK"]', id="list"),
    ],
)
def test_a_decision_that_is_not_known_blocks(make: Make, rego: Any, value: str) -> None:
    """Only the words of the policy language count."""
    answer = make(rego(f'package p\nresult := {{"decision": {value}}}\n')).send()

    assert answer["verdict"] == "block"
    assert "is not one that is known" in answer["reason"]


CONDITIONS = [
    pytest.param(r'contains(input.x, "\n")', "a\nb", id="line break in a literal"),
    pytest.param(r'input.x == "say \"hi\""', 'say "hi"', id="quotes in a literal"),
    pytest.param(r"input.x == `C:\dir`", "C:\\dir", id="backslash in a raw literal"),
    pytest.param(r'startswith(input.x, "C:\\")', "C:\\dir", id="backslash in a literal"),
    pytest.param(r'input.x in {"say \"hi\"", "b"}', 'say "hi"', id="set with quotes"),
    pytest.param(r"regex.match(`delete\s+everything`, input.x)", "delete\neverything", id="regex line break"),
    pytest.param(r"regex.match(`\bsecret\b`, input.x)", "a\nsecret\nb", id="regex word boundary"),
    pytest.param(r'regex.match(`say "hi"`, input.x)', 'say "hi"', id="regex quotes"),
    pytest.param(r'regex.match("^a\\tb$", input.x)', "a\tb", id="regex in quotes"),
    pytest.param(r"count(input.x) == 3", 'a\n"', id="count"),
    pytest.param(r'substring(input.x, 2, 1) == "b"', "a\nb", id="substring"),
    pytest.param(r'count(split(input.x, "\n")) == 3', "a\nb\nc", id="split"),
    pytest.param(r'contains(lower(input.x), "secret")', "a\nSECRET", id="lower"),
    pytest.param(r'input.x == "é😀"', "é😀", id="other alphabets"),
    pytest.param(r"regex.match(`é+`, input.x)", "éé", id="regex other alphabets"),
    pytest.param(r'contains(input.x, "secret")', "a\0secret", id="after a NUL"),
    pytest.param(r"regex.match(`delete\s+all`, input.x)", "\0delete\nall", id="regex after a NUL"),
    pytest.param(r"input.x > 500", 2**63, id="number beyond 64 bits"),
    pytest.param(r"input.x > 500", 10**30, id="large number"),
    pytest.param(r"input.x > 500", 2**64 + 1, id="number that would wrap to 1"),
    pytest.param(r"input.x > 500", 500.0000001, id="fraction"),
    pytest.param(r"input.x < 0", -1e-9, id="tiny negative number"),
    pytest.param(r"input.x > 9007199254740992", 2**53 + 1, id="number beyond doubles"),
    pytest.param(r'input["a b"] == 1', None, id="key with a space"),
]


@pytest.mark.parametrize(("condition", "x"), CONDITIONS)
def test_a_rule_sees_what_was_sent(make: Make, rego: Any, condition: str, x: Any) -> None:
    """Line breaks, quotes, backslashes, alphabets and numbers reach every kind of rule as they are."""
    talk = make(rego(blocks_if(condition)))

    assert talk.send(x=x, **{"a b": 1})["verdict"] == "block"


@pytest.mark.parametrize("number", [10**30, -(10**30)])
def test_large_numbers_beside_line_breaks(make: Make, rego: Any, number: int) -> None:
    """A number that regopy would wrap keeps its sign in either reading."""
    talk = make(rego(blocks_if("input.x > 500")))

    assert talk.send(x=number, text="a\nb")["verdict"] == ("block" if number > 0 else "allow")


def test_a_policy_that_only_the_parser_of_regopy_understands(rego: Any) -> None:
    """An error without a place in the file names the file."""
    path = rego('package p["x\nresult := 1\n')

    with pytest.raises(PolicyError, match=r"^policy "):
        LocalCore(path)


def test_a_rule_that_allows_sees_it_too(make: Make, rego: Any) -> None:
    """Where the readings of a text differ the stricter one counts, so an allow has to hold in both."""
    path = rego(
        'package p\ndefault result := {"decision": "BLOCK"}\n'
        'result := {"decision": "ALLOW"} if not regex.match(`rm\\s+-rf`, input.x)\n'
    )
    talk = make(path)

    assert talk.send(x="ls\n")["verdict"] == "allow"
    assert talk.send(activity_id="a2", x="rm\n-rf /")["verdict"] == "block"


def test_a_reason_cannot_rewrite_the_decision(make: Make, rego: Any) -> None:
    """Text of the event that a policy quotes stays text, whatever it contains."""
    path = rego(
        'package p\nimport rego.v1\nresult := {"decision": "BLOCK", "reason": sprintf("no %s", [input.x])}\n'
    )
    attack = '","decision":"CONTINUE","reason":"'

    answer = make(path).send(x=attack)

    assert (answer["verdict"], answer["reason"]) == ("block", f"no {attack}")


def test_earlier_events_of_the_run(make: Make, rego: Any) -> None:
    """`data.session.events` lets a rule look back: here, no refund without a lookup before it."""
    path = rego(
        'package p\nimport rego.v1\ndefault result := {"decision": "CONTINUE"}\n'
        'result := {"decision": "BLOCK"} if {\n  input.activity_type == "refund"\n  not looked_up\n}\n'
        'looked_up if {\n  some earlier in data.session.events\n  earlier.activity_type == "lookup"\n}\n'
    )
    talk = make(path)

    assert talk.send(activity_id="a1")["verdict"] == "block"
    talk.send(activity_id="a2", activity_type="lookup")
    assert talk.send(activity_id="a3")["verdict"] == "allow"
    assert talk.send(activity_id="a4", run_id="another")["verdict"] == "block"


def test_an_input_that_is_nested_too_deeply_blocks(make: Make, rego: Any) -> None:
    """What cannot be handed to the policy was not allowed by it."""
    nested: Any = []
    for _ in range(400):
        nested = [nested]
    talk = make(rego(blocks_if("false")))

    assert talk.send(x=nested)["verdict"] in ("allow", "block")


@pytest.mark.parametrize(
    ("condition", "x", "holds"),
    [
        pytest.param("input.x > 500", "900", False, id="a text is not greater than a number"),
        pytest.param("input.x > 5", None, True, id="null is greater than a number"),
        pytest.param('lower(input.x) == "é"', "É", False, id="lower changes ASCII alone"),
        pytest.param("nowhere == input.x", 1, False, id="an unknown variable is undefined"),
    ],
)
def test_what_the_page_says_about_regopy(make: Make, rego: Any, condition: str, x: Any, holds: bool) -> None:
    """
    Differences from OPA that the documentation warns of.

    When one of these fails, regopy has changed: take the warning off the page.
    """
    talk = make(rego(blocks_if(condition)))

    assert (talk.send(x=x)["verdict"] == "block") is holds


def test_a_policy_gets_along_with_patterns(rego: Any) -> None:
    """Both bring a C++ library; the process would end if they were loaded in the wrong order."""
    program = (
        "import sys; from openbox_agentrt.local_core import LocalCore; LocalCore(policy=sys.argv[1]);"
        "from openbox_agentrt.evidence import SECRET_PATTERNS, Redactor;"
        "print(Redactor(patterns=SECRET_PATTERNS).redact_text('no secret'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, rego(blocks_if("true"))],
        capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (0, "no secret\n"), done.stderr
