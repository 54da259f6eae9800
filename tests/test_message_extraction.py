"""What was said: prompts, responses, and text in copies."""

from __future__ import annotations

from typing import Any

import pytest
from agent_rt import ContentPart, ModelMessage, ModelResponse, ModelUsage, ToolCall

from openbox_agentrt.message_extraction import last_user_text, message_text, response_output, with_text

IMAGE = ContentPart(type="image", data="aGk=", mime_type="image/png")


def text(value: str | None) -> ContentPart:
    return ContentPart(type="text", text=value)


def message(role: Any, *parts: ContentPart) -> ModelMessage:
    return ModelMessage(role=role, content=parts)


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param([], "", id="no message"),
        pytest.param([message("user", text("hello"))], "hello", id="one"),
        pytest.param([message("user", text("one")), message("user", text("two"))], "two", id="the last"),
        pytest.param([message("user", text("hel"), IMAGE, text("lo"))], "hello", id="in parts, beside media"),
        pytest.param(
            [message("user", text("hello")), message("assistant", text("hi"))], "hello", id="before others"
        ),
        pytest.param([message("user", text("hello")), message("user", IMAGE)], "", id="mere media has none"),
        pytest.param([message("user", text("hello")), message("user", text(" "))], "", id="a blank is none"),
        pytest.param([message("system", text("obey"))], "", id="no user"),
        pytest.param([message("user", IMAGE), message("user", text(None))], "", id="no text"),
        pytest.param([message("user", ContentPart(type="json", data={"a": 1}))], "", id="json is not text"),
    ],
)
def test_the_last_user_text(messages: list[ModelMessage], expected: str) -> None:
    """The text that a model call answers, as far as there is one."""
    assert last_user_text(messages) == expected


def test_text_is_replaced_in_a_copy_and_media_stays() -> None:
    """The first text part takes it, the others go, and the original is not touched."""
    before = message("user", text("ssn"), IMAGE, text(" 123"))

    after = with_text(before, "ssn ***")

    assert after == message("user", text("ssn ***"), IMAGE)
    assert after.content[1] is IMAGE
    assert message_text(before) == "ssn 123"


def test_redacted_to_nothing_leaves_no_empty_part_beside_media() -> None:
    """Some providers refuse an empty text part, and none accepts a message without parts."""
    assert with_text(message("user", text("ssn"), IMAGE), "") == message("user", IMAGE)
    assert with_text(message("user", text("ssn"), text("1")), "") == message("user", text(""))


def test_a_response_has_all_keys() -> None:
    """Null where the provider did not say."""
    response = ModelResponse(
        message=ModelMessage(
            role="assistant", content=(text("done"),), tool_calls=(ToolCall("1", "refund", {}),)
        ),
        model="m-1",
        usage=ModelUsage(input_tokens=3, output_tokens=4, total_tokens=7),
        finish_reason="tool_calls",
    )

    assert response_output(response) == {
        "llm_model": "m-1", "input_tokens": 3, "output_tokens": 4, "total_tokens": 7,
        "completion": "done", "has_tool_calls": True, "finish_reason": "tool_calls",
    }  # fmt: skip
    assert response_output(ModelResponse(message=message("assistant"))) == {
        "llm_model": None, "input_tokens": None, "output_tokens": None, "total_tokens": None,
        "completion": "", "has_tool_calls": False, "finish_reason": None,
    }  # fmt: skip
