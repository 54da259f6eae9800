"""Every shape in which Core sends a redaction."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openbox_agentrt._wire.payloads import json_safe
from openbox_agentrt._wire.redaction_shapes import fit_redaction
from openbox_agentrt.decision import MISSING
from openbox_agentrt.errors import GovernanceUnavailableError
from openbox_agentrt.message_extraction import redacted_arguments, redacted_output, redacted_prompt

SENTINEL = {"__openbox": {"tool_type": "payment"}}
ARGS = {"note": "ssn 123-45-6789", "amount": 7, "to": {"name": "Ann", "tags": ["a", "b"]}}
CLEAN = {"note": "ssn ***", "amount": 7, "to": {"name": "Ann", "tags": ["a", "b"]}}

PROMPTS: dict[str, tuple[object, str]] = {
    "nothing": (MISSING, "raw"),
    "null": (None, "raw"),
    "text": ("clean", "clean"),
    "nothing left": ("", ""),
    "mirror": ([{"prompt": "clean"}], "clean"),
    "mirror of a signal": (["clean"], "clean"),
    "mirror with a sentinel": ([{"prompt": "clean"}, SENTINEL], "clean"),
    "object": ({"prompt": "clean"}, "clean"),
    "null inside": ({"prompt": None}, ""),
    "input": ({"input": [{"prompt": "clean"}]}, "clean"),
    "activity_input": ({"activity_input": [{"prompt": "clean"}]}, "clean"),
    "wrapped text": ({"activity_input": "clean"}, "clean"),
    "wrapped object": ({"input": {"prompt": "clean"}}, "clean"),
    "wrapped null": ({"activity_input": None}, "raw"),
    "wrapped twice": ({"result": {"activity_input": [{"prompt": "clean"}]}}, "clean"),
    "empty object": ({}, "raw"),
    "json text": (json.dumps([{"prompt": "clean"}]), "clean"),
    "text that looks like json": ('{"a": ', '{"a": '),
    "text that is other json": ('["x", "y"]', '["x", "y"]'),
    "unchanged": ([{"prompt": "raw"}], "raw"),
}


@pytest.mark.parametrize("name", PROMPTS)
def test_a_prompt_is_replaced(name: str) -> None:
    """Each shape that fits a prompt gives the redacted text."""
    redacted, expected = PROMPTS[name]

    assert redacted_prompt("raw", redacted) == expected


UNFIT_PROMPTS: dict[str, object] = {
    "number": 5,
    "flag": True,
    "empty list": [],
    "two elements": ["clean", "clean"],
    "another key": {"text": "clean"},
    "an added key": {"prompt": "clean", "system": "obey"},
    "number inside": {"prompt": 5},
    "list inside": {"prompt": ["clean"]},
    "object inside": {"prompt": {"text": "clean"}},
    "two wrappers": {"input": "clean", "output": "clean"},
    "wrapped number": {"activity_input": 5},
    "endless wrapping": {
        "input": {
            "input": {
                "input": {"input": {"input": {"input": {"input": {"input": {"input": {"input": "x"}}}}}}}
            }
        }
    },
}


@pytest.mark.parametrize("name", UNFIT_PROMPTS)
def test_a_prompt_that_cannot_be_replaced_is_refused(name: str) -> None:
    """The raw text is never sent instead, and the error does not repeat it."""
    with pytest.raises(GovernanceUnavailableError) as caught:
        redacted_prompt("hunter2", UNFIT_PROMPTS[name])

    assert caught.value.kind == "unreadable"
    assert "hunter2" not in str(caught.value)


ARGUMENTS: dict[str, tuple[object, Mapping[str, Any]]] = {
    "null": (None, ARGS),
    "nothing": (MISSING, ARGS),
    "empty object": ({}, ARGS),
    "mirror": ([CLEAN], CLEAN),
    "mirror with a sentinel": ([CLEAN, SENTINEL], CLEAN),
    "object": (CLEAN, CLEAN),
    "partial object": ({"note": "ssn ***"}, CLEAN),
    "partial object in a list": ([{"note": "ssn ***"}], CLEAN),
    "partial and deep": ({"to": {"name": "***"}}, {**ARGS, "to": {"name": "***", "tags": ["a", "b"]}}),
    "in a list": ({"to": {"tags": ["a", "***"]}}, {**ARGS, "to": {"name": "Ann", "tags": ["a", "***"]}}),
    "wrapped": ({"activity_input": [CLEAN, SENTINEL]}, CLEAN),
    "wrapped object": ({"input": {"note": "ssn ***"}}, CLEAN),
    "json text": (json.dumps([CLEAN, SENTINEL]), CLEAN),
    "json text of an object": (json.dumps({"note": "ssn ***"}), CLEAN),
    "a whole branch": ({"to": "[gone]"}, {**ARGS, "to": "[gone]"}),
    "a whole branch to null": ({"to": None}, {**ARGS, "to": None}),
    "a number to text": ({"amount": "***"}, {**ARGS, "amount": "***"}),
    "sentinel beside": ({"note": "ssn ***", "__openbox": {"x": 1}}, CLEAN),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_are_replaced(name: str) -> None:
    """What is redacted is replaced, whatever else was sent stays, and the original is not changed."""
    redacted, expected = ARGUMENTS[name]
    before = copy.deepcopy(ARGS)

    result = redacted_arguments(ARGS, redacted)

    assert result == expected
    assert before == ARGS
    assert (result is ARGS) == (expected == ARGS)


UNFIT_ARGUMENTS: dict[str, object] = {
    "text for several texts": "ssn ***",
    "nothing for several texts": "",
    "number": 5,
    "empty list": [],
    "another element": [CLEAN, {"more": 1}],
    "an added argument": {**CLEAN, "to_account": "evil"},
    "an added argument deeper": {"to": {"iban": "evil"}},
    "a longer list": {"to": {"tags": ["a", "b", "evil"]}},
    "a shorter list": {"to": {"tags": ["a"]}},
    "an object for a text": {"note": {"x": 1}},
    "a list for an object": {"to": ["x"]},
}


@pytest.mark.parametrize("name", UNFIT_ARGUMENTS)
def test_arguments_that_cannot_be_replaced_are_refused(name: str) -> None:
    """A redaction takes away: it neither adds arguments nor leaves it open which one is meant."""
    with pytest.raises(GovernanceUnavailableError):
        redacted_arguments(ARGS, UNFIT_ARGUMENTS[name])


def test_text_replaces_the_only_text() -> None:
    """Where there is one text, it is clear which one is meant."""
    assert redacted_arguments({"q": "ssn 1", "top": 3}, "ssn ***") == {"q": "ssn ***", "top": 3}
    assert redacted_arguments({"q": {"deep": ["ssn 1"]}}, "") == {"q": {"deep": [""]}}


def test_an_argument_named_like_a_wrapper_is_an_argument() -> None:
    """`input` and `result` are ordinary names of arguments."""
    args = {"input": "ssn 1", "result": "x"}

    assert redacted_arguments(args, {"input": "***"}) == {"input": "***", "result": "x"}
    assert redacted_arguments(args, {"activity_input": [{"input": "***"}]}) == {"input": "***", "result": "x"}
    assert redacted_arguments({"input": "ssn 1"}, {"input": {"input": "***"}}) == {"input": "***"}


def test_an_argument_named_like_the_sentinel_comes_back_under_its_name() -> None:
    """It was sent under another name, so that it could not pass for a classification."""
    args = {"__openbox": {"note": "ssn 1"}, "n": 1}

    result = redacted_arguments(args, [{"__openbox (argument)": {"note": "***"}, "n": 1}])

    assert result == {"__openbox": {"note": "***"}, "n": 1}
    assert redacted_arguments(args, None) is args


def test_what_does_not_change_stays_the_same_object() -> None:
    """Branches without a redaction are the tool's own objects, in their own types."""
    tags = ("a", math.nan, b"\xff")
    args = MappingProxyType({"note": "ssn 1", "tags": tags, "n": 1.0})

    result = redacted_arguments(args, [{"note": "***", "tags": json_safe(tags), "n": 1}])

    assert result["tags"] is tags
    assert type(result["n"]) is float


def test_numbers_come_back_as_core_s_decoder_reads_them() -> None:
    """A long number that lost its last digits on the way was not redacted."""
    args = {"id": 12345678901234567890, "x": 1.5}

    assert redacted_arguments(args, [{"id": 12345678901234567000, "x": 1.5}]) is args


def test_a_flag_is_not_a_number() -> None:
    """True is not 1 for a tool."""
    assert redacted_arguments({"force": True}, [{"force": 1}]) == {"force": 1}


@dataclasses.dataclass
class Order:
    note: str
    amount: int


def test_a_value_that_is_no_mapping_is_replaced_by_its_plain_form() -> None:
    """Only when something in it is redacted."""
    order = Order("ssn 1", 7)

    (same,) = fit_redaction([order], [{"note": "ssn 1", "amount": 7}])
    (changed,) = fit_redaction([order], [{"note": "***"}])

    assert same is order
    assert changed == {"note": "***", "amount": 7}


def test_several_inputs_are_replaced_each_by_its_own() -> None:
    """A user's own activity may have any number of inputs."""
    assert fit_redaction(["ssn 1", {"x": "y"}, 3], ["***", None, 3]) == ["***", {"x": "y"}, 3]
    assert fit_redaction([], []) == []
    with pytest.raises(GovernanceUnavailableError):
        fit_redaction(["a", "b"], {"x": "y"})


def test_an_output_is_replaced() -> None:
    """Of a model's output, text alone means the completion."""
    output = {"llm_model": "m", "completion": "ssn 1", "finish_reason": "stop", "input_tokens": None}

    assert redacted_output(output, "***")["completion"] == "***"
    assert redacted_output(output, {"activity_output": {"completion": "***"}})["completion"] == "***"
    assert redacted_output("ssn 1", "***") == "***"
    assert redacted_output({"rows": ["ssn 1"]}, {"output": {"rows": ["***"]}}) == {"rows": ["***"]}
    assert redacted_output(["ssn 1", "b"], ["***", "b"]) == ["***", "b"]
    assert redacted_output(output, None) is output


def test_an_input_of_which_core_saw_a_part_is_not_changed_by_its_redaction() -> None:
    """The rest may hold the same data; unchanged, it passes."""
    args = {"n": 1, "note": "x" * 10_000}
    seen = json_safe([args], max_bytes=1_000)

    assert redacted_arguments(args, seen, max_bytes=1_000) is args
    with pytest.raises(GovernanceUnavailableError, match="only in part"):
        redacted_arguments(args, [{**seen[0], "n": 2}], max_bytes=1_000)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text(), json_values, max_size=4))
def test_a_mirror_changes_nothing(args: dict[str, Any]) -> None:
    """What Core sends back as it was is no redaction."""
    assert redacted_arguments(args, json_safe([args, SENTINEL])) is args


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text(), json_values, max_size=4), json_values)
def test_any_other_shape_fits_or_is_refused(args: dict[str, Any], redacted: Any) -> None:
    """There is no third outcome, and no argument is added."""
    try:
        result = redacted_arguments(args, redacted)
    except GovernanceUnavailableError:
        return
    assert result.keys() == args.keys()
