"""Redactions that stay in force for a run."""

from __future__ import annotations

import copy
import dataclasses
import gc
import json
from typing import Any

import pydantic
import pytest
from agent_rt import PROVIDER_STATE_MIME, ContentPart, ModelMessage, ToolCall
from hypothesis import given
from hypothesis import strategies as st

from openbox_agentrt._run.redaction import redacted_messages
from openbox_agentrt._run.redaction import redactions as module
from openbox_agentrt._run.redaction.redactions import Redactions
from openbox_agentrt.errors import GovernanceUnavailableError

RAW = "my ssn is 123-45-6789 ok"
CLEAN = "my ssn is *** ok"
IMAGE = ContentPart(type="image", data="aGk=", mime_type="image/png")


def text(value: str) -> ContentPart:
    return ContentPart(type="text", text=value)


def message(role: Any, *parts: ContentPart, calls: tuple[ToolCall, ...] = ()) -> ModelMessage:
    return ModelMessage(role=role, content=parts, tool_calls=calls)


@pytest.fixture
def redactions() -> Redactions:
    known = Redactions()
    known.learn(RAW, CLEAN)
    return known


def test_without_redactions_nothing_is_touched() -> None:
    """The same objects come back, the sequence included."""
    messages = [message("user", text(RAW))]

    assert Redactions().is_empty
    assert Redactions().messages(messages) is messages


PLACES: dict[str, tuple[ModelMessage, ModelMessage]] = {
    "the message itself": (message("user", text(RAW)), message("user", text(CLEAN))),
    "in two parts": (message("user", text(RAW[:14]), text(RAW[14:])), message("user", text(CLEAN))),
    "beside media": (message("user", text(RAW), IMAGE), message("user", text(CLEAN), IMAGE)),
    "quoted by the system": (
        message("system", text(f"User: {RAW}!")),
        message("system", text(f"User: {CLEAN}!")),
    ),
    "an earlier answer": (
        message("assistant", text(f"You said {RAW}")),
        message("assistant", text(f"You said {CLEAN}")),
    ),
    "a tool's result": (
        message("tool", ContentPart(type="json", data={"rows": [{"q": RAW}]})),
        message("tool", ContentPart(type="json", data={"rows": [{"q": CLEAN}]})),
    ),
    "a key of a tool's result": (
        message("tool", ContentPart(type="json", data={RAW: 1})),
        message("tool", ContentPart(type="json", data={CLEAN: 1})),
    ),
    "arguments of a call": (
        message("assistant", calls=(ToolCall("1", "search", {"q": RAW, "n": 1}),)),
        message("assistant", calls=(ToolCall("1", "search", {"q": CLEAN, "n": 1}),)),
    ),
    "why arguments were no JSON": (
        message("assistant", calls=(ToolCall("1", "search", {}, f"cannot read {RAW}"),)),
        message("assistant", calls=(ToolCall("1", "search", {}, f"cannot read {CLEAN}"),)),
    ),
    "the telling word alone": (
        message("user", text("is 123-45-6789 mine")),
        message("user", text("is *** mine")),
    ),
    "the telling word in two parts": (
        message("user", text("is 123-"), text("45-6789?")),
        message("user", text("is ***?")),
    ),
    "the telling word as an argument": (
        message("assistant", calls=(ToolCall("1", "check", {"ssn": "123-45-6789"}),)),
        message("assistant", calls=(ToolCall("1", "check", {"ssn": "***"}),)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_the_raw_text_is_taken_out_wherever_it_comes_back(redactions: Redactions, name: str) -> None:
    """In every role and every part of a message; the original is not changed."""
    before, expected = PLACES[name]
    untouched = copy.deepcopy(before)

    (after,) = redactions.messages([before])

    assert after == expected
    assert before == untouched


def test_a_message_without_it_is_the_same_object(redactions: Redactions) -> None:
    """Providers cache by identity, so nothing is copied that need not be."""
    other = message("user", text("hello"), IMAGE, calls=(ToolCall("1", "search", {"q": ["x"]}),))
    messages = (other,)

    assert redactions.messages(messages) is messages
    assert redactions.messages([message("user", text(RAW)), other])[1] is other


def test_a_redacted_message_is_the_same_new_object_every_turn(redactions: Redactions) -> None:
    """Sixty turns convert a message once, not sixty times."""
    raw = message("user", text(RAW))

    first = redactions.messages([raw])[0]
    again = redactions.messages([raw, message("user", text("more"))])[0]

    assert first is again
    assert redactions.messages([first])[0] is first


def test_another_redaction_leaves_the_objects_that_it_does_not_concern(redactions: Redactions) -> None:
    """Learning something in turn 5 does not make new objects of turns 1 to 4."""
    raw, other = message("user", text(RAW)), message("user", text("hello"))
    first = redactions.messages([raw, other])

    redactions.learn("my pin is 99887766", "my pin is ***")
    again = redactions.messages([raw, other, message("user", text("pin 99887766"))])

    assert again[0] is first[0]
    assert again[1] is other
    assert again[2] == message("user", text("pin ***"))


def test_a_longer_raw_text_is_found_around_a_shorter_one(redactions: Redactions) -> None:
    """A redaction of a part does not keep that of the whole from being applied."""
    longer = RAW + " and my password is correcthorsebattery"
    redactions.learn(longer, CLEAN + " and my password is ***")

    assert "correcthorsebattery" not in redactions.text(longer)
    assert "correcthorsebattery" not in redactions.text("it was correcthorsebattery")


@pytest.mark.parametrize("ascii_only", [True, False])
def test_it_is_found_inside_a_text_that_is_json(ascii_only: bool) -> None:
    """Where line breaks, quotes and umlauts are written differently."""
    known = Redactions()
    known.learn('Frau M\u00fcller says:\n"ssn 123-45-6789"', "Frau [NAME] says:\n...")
    told = json.dumps({"q": 'Frau M\u00fcller says:\n"ssn 123-45-6789"'}, ensure_ascii=ascii_only)

    clean = known.text(told)

    assert json.loads(clean) == {"q": "Frau [NAME] says:\n..."}


def test_the_longest_text_is_taken_out_first() -> None:
    """A part of it that is known too would leave the rest of it behind."""
    known = Redactions()
    known.learn("the blue house", "[gone]")
    known.learn("the blue house is mine today", "[all gone]")

    assert known.text("he said: the blue house is mine today!") == "he said: [all gone]!"
    assert known.text("he said: the blue house!") == "he said: [gone]!"


def test_what_takes_the_place_of_a_text_is_looked_at_too() -> None:
    """Core may have redacted one secret there, and the other elsewhere."""
    known = Redactions()
    known.learn("first 11112222, second 33334444", "first ***, second 33334444")
    known.learn("again 33334444", "again ###")

    assert known.text("first 11112222, second 33334444") == "first ***, second ###"


def test_redacted_to_nothing_stays_nothing() -> None:
    """An empty replacement is a replacement."""
    known = Redactions()
    known.learn("a secret plan", "")

    assert known.text("a secret plan") == ""
    assert known.text("see: a secret plan.") == "see: ."


def test_a_short_text_is_replaced_only_as_a_whole() -> None:
    """`no` is part of too many words."""
    known = Redactions()
    known.learn("no", "[gone]")

    assert known.text("no") == "[gone]"
    assert known.text("nothing") == "nothing"


def test_words_that_differ_but_tell_nothing_are_left_alone() -> None:
    """A guardrail that replaces a common word does not replace it everywhere."""
    known = Redactions()
    known.learn("please call Bill about the invoice", "please call [NAME] about the invoice")

    assert known.text("the Bill is high") == "the Bill is high"


def test_applying_twice_is_applying_once() -> None:
    """Also where the replacement contains what it replaces."""
    known = Redactions()
    known.learn("ann@example.com", "<ann@example.com hidden>")

    once = known.text("ann@example.com")

    assert once == "<ann@example.com hidden>"
    assert known.text(once) == once


def test_what_was_redacted_in_arguments_is_learnt_leaf_by_leaf() -> None:
    """Every text that changed, also where a whole branch was replaced."""
    known = Redactions()
    before = {"note": "ssn 123-45-6789", "to": {"names": ["Annabel Example"]}, "n": 1, "list": ["same"]}
    known.learn(before, {"note": "ssn ***", "to": "[gone]", "n": 1, "list": ["same"]})

    assert known.text("ssn 123-45-6789") == "ssn ***"
    assert known.text("to Annabel Example") == "to [gone]"
    assert known.text("same") == "same"


def test_values_keep_their_shape_and_identity(redactions: Redactions) -> None:
    """Only what holds the raw text is copied."""
    inner = {"x": 1}
    value = {"a": inner, "b": (RAW,), "c": [inner], "d": None}

    result = redactions.value(value)

    assert result == {"a": inner, "b": (CLEAN,), "c": [inner], "d": None}
    assert result["a"] is inner
    assert redactions.value(result) is result


def test_memory_of_messages_is_bounded(redactions: Redactions, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long run does not keep all its messages alive."""
    monkeypatch.setattr(redacted_messages, "MAX_REMEMBERED_MESSAGES", 10)
    for number in range(200):
        redactions.messages([message("user", text(f"{RAW} {number}"))])
    gc.collect()

    assert len(redactions._messages) <= 10


def test_a_redaction_is_never_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather than that, the run is refused."""
    monkeypatch.setattr(module, "MAX_REDACTIONS", 3)
    known = Redactions()
    for number in range(3):
        known.learn(f"raw text {number}", "***")
    known.learn("raw text 0", "***")

    with pytest.raises(GovernanceUnavailableError, match="too many redactions"):
        known.learn("raw text 3", "***")


def test_a_message_s_id_is_not_taken_for_another_s(redactions: Redactions) -> None:
    """Messages that are gone do not answer for new ones at the same address."""
    for number in range(2_000):
        (after,) = redactions.messages([message("user", text(f"{number}: {RAW}"))])
        assert after.content[0].text == f"{number}: {CLEAN}"


@dataclasses.dataclass
class Customer:
    """A record of a user's program."""

    mail: str
    note: str = "none"


@dataclasses.dataclass
class Picky:
    """One that does not take what a redaction puts in the place of its text."""

    mail: str

    def __post_init__(self) -> None:
        if "@" not in self.mail:
            raise ValueError("not a mail address")


class Opaque:
    """An object that shows what it holds only when it is printed."""

    def __str__(self) -> str:
        return f"<customer {MAIL}>"


class Model(pydantic.BaseModel):
    """A model of a user's program."""

    mail: str


MAIL = "jane.doe@example.org"

VALUES: dict[str, tuple[Any, Any]] = {
    "a content part": (ContentPart("text", text=MAIL), ContentPart("text", text="<EMAIL>")),
    "a dataclass": (Customer(MAIL), Customer("<EMAIL>")),
    "a dataclass that refuses it": (Picky(MAIL), {"mail": "<EMAIL>"}),
    "a model": (Model(mail=MAIL), {"mail": "<EMAIL>"}),
    "a set": ({MAIL, "x"}, {"<EMAIL>", "x"}),
    "a frozen set": (frozenset({MAIL}), frozenset({"<EMAIL>"})),
    "bytes": (MAIL.encode(), b"<EMAIL>"),
    "bytes inside": ({"raw": [MAIL.encode()]}, {"raw": [b"<EMAIL>"]}),
    "an exception": (
        ValueError(f"no {MAIL}"),
        {"type": "ValueError", "message": "no <EMAIL>"},
    ),
    "an object as it is printed": (Opaque(), "<customer <EMAIL>>"),
}


@pytest.mark.parametrize("name", VALUES)
def test_every_type_is_redacted(name: str) -> None:
    """A tool may return anything, and what it returns reaches Core and the next model call."""
    known = Redactions()
    known.learn(f"write to {MAIL}", "write to <EMAIL>")
    value, expected = VALUES[name]

    assert known.value(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        Customer("x"),
        {"x"},
        b"x",
        b"\xff\xfe",
        ValueError("x"),
        Opaque,
        object(),
        3,
        2.5,
        None,
        Model(mail="x"),
    ],
)
def test_what_does_not_hold_it_stays_the_same_object(redactions: Redactions, value: Any) -> None:
    """Whatever it is."""
    assert redactions.value(value) is value


def test_a_value_inside_itself(redactions: Redactions) -> None:
    """It has no end, and is redacted all the same."""
    value: dict[str, Any] = {"q": RAW}
    value["self"] = value

    assert "123-45-6789" not in str(redactions.value(value))


CARD = 4_111_111_111_111_111


def test_a_number_is_taken_out_wherever_it_comes_back() -> None:
    """As a number, and inside of a text."""
    known = Redactions()
    known.learn({"card": CARD, "amount": 40}, {"card": "<CARD>", "amount": 40})

    assert known.value({"charged": CARD, "amount": 40}) == {"charged": "<CARD>", "amount": 40}
    assert known.text(f"card {CARD} charged") == "card <CARD> charged"


def test_a_number_for_a_number() -> None:
    """What is put in its place keeps its type."""
    known = Redactions()
    known.learn({"card": CARD}, {"card": 0})

    assert known.value([CARD, f"card {CARD}"]) == [0, "card 0"]


def test_a_short_number_is_replaced_only_in_the_same_whole() -> None:
    """A 40 elsewhere is another 40."""
    known = Redactions()
    known.learn({"amount": 40, "to": "me"}, {"amount": 0, "to": "me"})

    assert known.value({"to": "me", "amount": 40}) == {"amount": 0, "to": "me"}
    assert known.value({"amount": 40}) == {"amount": 40}


def test_what_is_given_for_a_whole_is_a_copy() -> None:
    """Whoever gets it may change it."""
    known = Redactions()
    known.learn({"rows": [1, 2, 3, 4]}, {"rows": ["gone"]})
    given: Any = known.value({"rows": [1, 2, 3, 4]})
    given["rows"].append("mine")

    again: Any = known.value({"rows": [1, 2, 3, 4]})
    assert again == {"rows": ["gone"]}


def test_state_that_a_provider_signed_is_dropped_and_not_edited(redactions: Redactions) -> None:
    """A provider refuses a signed thought that was changed."""
    thought = ContentPart("json", data={"thinking": RAW, "signature": "s"}, mime_type=PROVIDER_STATE_MIME)
    other = ContentPart("json", data={"thinking": "hm", "signature": "s"}, mime_type=PROVIDER_STATE_MIME)

    (after,) = redactions.messages([message("assistant", thought, other, text("ok"))])

    assert after.content == (other, text("ok"))


@given(
    st.recursive(
        st.just(RAW) | st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text(max_size=3) | st.just(RAW), inner, max_size=3)
            | st.tuples(inner, inner)
            | st.builds(Customer, inner)
        ),
        max_leaves=8,
    )
)
def test_nothing_of_it_is_left_in_any_value(value: Any) -> None:
    """However it is nested; and once redacted, it does not change any more."""
    known = Redactions()
    known.learn(RAW, CLEAN)

    clean = known.value(value)

    assert "123-45-6789" not in repr(clean)
    assert known.value(clean) is clean


@pytest.mark.parametrize("raw", [{"pin": 12, "for": RAW}, [1, RAW]], ids=["a mapping", "a list"])
def test_what_replaced_a_whole_is_redacted_on(raw: Any) -> None:
    """A text that Core let stand in it, and takes out later, does not come back with it."""
    redactions = Redactions()
    before = {**raw, "pin": "*"} if isinstance(raw, dict) else ["*", RAW]
    redactions.learn(raw, before)
    assert redactions.value(raw) == before

    redactions.learn(RAW, CLEAN)

    assert redactions.value(raw) == json.loads(json.dumps(before).replace(RAW, CLEAN))
    told = redactions.told([raw, RAW], str)
    assert RAW not in json.dumps(list(told.values()))
