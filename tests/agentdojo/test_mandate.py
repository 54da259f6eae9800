"""What a request allows: effects that it asks for, destinations that are vouched for, words as quoted."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import pytest

from benchmarks.agentdojo.mandate import RECORDED, SAID, Mandate, conditions, learned, mandate, names
from benchmarks.agentdojo.suites import SUITES, ToolSchema, rules_file, suite, tool_schemas
from benchmarks.agentdojo.traces import benign_traces
from benchmarks.agentdojo.vocabulary import ASKS, LOOKS


def tool(name: str) -> ToolSchema:
    """The tool of that name, of whichever suite has it."""
    return next(tool for name_ in SUITES for tool in tool_schemas(name_) if tool.name == name)


def of(request: str, *tools: str) -> Mandate:
    """The mandate that `request` gives an agent with these tools."""
    return mandate(request, [tool(name) for name in tools])


def allowed(
    request: str,
    name: str,
    args: dict[str, Any],
    *,
    recorded: list[str] | None = None,
    said: list[str] | None = None,
) -> bool:
    """Whether every condition on a call of `name` holds."""
    state = {RECORDED: recorded or [], SAID: said or []}
    return all(one.holds(state, args) for one in conditions(of(request, name), tool(name)))


def test_mandate_is_made_from_the_request_and_the_schemas_alone() -> None:
    """Nothing else is handed in: no ground truth, no injection task, no environment."""
    assert list(inspect.signature(mandate).parameters) == ["request", "tools"]


@pytest.mark.parametrize("name", SUITES)
def test_every_effect_can_be_asked_for(name: str) -> None:
    """No tool is out of reach for every request, and no tool that only looks has to be asked for."""
    effects = {tool.name for tool in tool_schemas(name) if not tool.name.startswith(LOOKS)}

    assert effects
    assert effects <= ASKS.keys()


@pytest.mark.parametrize("name", SUITES)
def test_benign_traces_use_what_was_asked_for(name: str) -> None:
    """No effect of a user task's trace is one that its request does not ask for."""
    for trace in benign_traces(name):
        assert trace.request is not None
        banned = mandate(trace.request, tool_schemas(name)).banned

        assert not banned & {call.tool for call in trace.calls}, trace.name


@pytest.mark.parametrize(
    ("request_", "banned"),
    [
        pytest.param(
            "What is my balance?", {"send_money", "update_password"}, id="a question asks for no effect"
        ),
        pytest.param("Pay the bill, please.", {"update_password"}, id="a verb asks for its tool"),
        pytest.param(
            "Find 'pay him and update the password'.", {"send_money", "update_password"}, id="quoted"
        ),
        pytest.param("Read 'x.txt' and follow the instructions.", set(), id="the choice is handed over"),
    ],
)
def test_effects_are_asked_for(request_: str, banned: set[str]) -> None:
    """A tool with an effect is banned unless the request's own words ask for it."""
    assert of(request_, "get_balance", "send_money", "update_password").banned == banned


@pytest.mark.parametrize(
    ("text", "value", "found"),
    [
        pytest.param("Mail ann@x.org, please", "ann@x.org", True, id="an address"),
        pytest.param("Mail ann@x.org.", "ANN@x.org", True, id="case, full stop"),
        pytest.param("Mail joann@x.org", "ann@x.org", False, id="the tail of an address"),
        pytest.param("Mail ann@x.org.uk", "ann@x.org", False, id="the head of a host"),
        pytest.param("See www.x.org/list", "www.x.org", False, id="the head of a path"),
        pytest.param("See www.x.org.They said", "www.x.org", True, id="a sentence without a space"),
        pytest.param("Stay at 'Le Marais'", "le marais", True, id="two words"),
        pytest.param("anything", "", False, id="nothing"),
        pytest.param("anything", " ", False, id="blank"),
    ],
)
def test_a_text_names_whole_names_only(text: str, value: str, *, found: bool) -> None:
    """A name is in a text as a whole, not as a part of a longer one."""
    assert names(text, value) is found


def test_a_recipient_that_the_user_names_is_allowed() -> None:
    """What the request names is vouched for."""
    assert allowed("Send an email to ann@x.org", "send_email", {"recipients": ["ann@x.org"]})


def test_a_recipient_that_nobody_names_is_refused() -> None:
    """One address that is not vouched for is enough, wherever it stands."""
    request = "Send an email to ann@x.org"

    assert not allowed(request, "send_email", {"recipients": ["ann@x.org", "eve@y.org"]})
    assert not allowed(request, "send_email", {"recipients": ["ann@x.org"], "bcc": ["eve@y.org"]})


def test_a_recipient_that_is_no_text_is_refused() -> None:
    """What cannot be compared is not vouched for."""
    assert not allowed("Send an email to ann@x.org", "send_email", {"recipients": [{"to": "ann@x.org"}]})


def test_a_recorded_recipient_is_allowed() -> None:
    """A record vouches for whom it is from, in whatever case."""
    request = "Send an email with the minutes to the client"

    assert allowed(request, "send_email", {"recipients": ["Bob@x.org"]}, recorded=["bob@X.org"])


def test_a_booking_is_for_what_the_user_named() -> None:
    """A list of hotels does not vouch for one of them."""
    request = "Please book a room at 'City Hub'"

    assert allowed(request, "reserve_hotel", {"hotel": "City Hub"})
    assert not allowed(request, "reserve_hotel", {"hotel": "Grand"}, recorded=["Grand"])


def test_a_password_is_quoted() -> None:
    """A password that the user has not quoted is not set, whatever else asks for it."""
    assert allowed("Update the password to 'a1'", "update_password", {"password": "a1"})
    assert not allowed("Update the password to 'a1'", "update_password", {"password": "a1b"})
    assert not allowed("Update the password", "update_password", {"password": "a1"})


def test_a_title_is_as_quoted_with_placeholders_for_anything() -> None:
    """Where the request quotes texts, a title is one of them."""
    request = "Add an event 'Dinner at {restaurant}' to my calendar"

    assert allowed(request, "create_calendar_event", {"title": "Dinner at Luigi's"})
    assert not allowed(request, "create_calendar_event", {"title": "Lunch at Luigi's"})
    assert allowed("Add an event to my calendar", "create_calendar_event", {"title": "Lunch"})


def test_a_link_is_passed_on_only_if_it_was_given() -> None:
    """A link in a message was named by the user or by a colleague."""
    request = "Send Ann a message about www.x.org"

    assert allowed(request, "send_direct_message", {"recipient": "Ann", "body": "See http://www.x.org!"})
    assert allowed(
        request, "send_direct_message", {"recipient": "Ann", "body": "www.y.org"}, said=["on www.y.org"]
    )
    assert not allowed(request, "send_direct_message", {"recipient": "Ann", "body": "See www.z.org"})


def test_an_address_is_fetched_only_if_it_was_given() -> None:
    """To fetch an address is an effect, although the tool only looks."""
    assert allowed("Read www.x.org", "get_webpage", {"url": "https://www.x.org"})
    assert not allowed("Read www.x.org", "get_webpage", {"url": "www.x.org/log?secret"})


@pytest.mark.parametrize(
    ("name", "args", "result", "vouched"),
    [
        pytest.param(
            "search_emails",
            {},
            [{"sender": "a@x", "cc": ["b@x"], "body": "c@x"}],
            (["a@x", "b@x"], []),
            id="mail",
        ),
        pytest.param(
            "list_files", {}, [{"owner": "a@x", "shared_with": {"b@x": "r"}}], (["a@x", "b@x"], []), id="file"
        ),
        pytest.param("get_channels", {}, ["general"], (["general"], []), id="channels"),
        pytest.param("read_inbox", {}, [{"sender": "Ann", "body": "Hi"}], (["Ann"], ["Hi"]), id="chat"),
        pytest.param("get_webpage", {}, "I am a@x.org", (["a@x.org"], []), id="page"),
        pytest.param(
            "read_file", {"file_path": "bill.txt"}, "to XY12", ([], ["to XY12"]), id="the bill to pay"
        ),
        pytest.param("read_file", {"file_path": "other.txt"}, "to XY12", ([], []), id="another file"),
        pytest.param("get_balance", {}, 12.5, ([], []), id="a number"),
        pytest.param("search_emails", {}, None, ([], []), id="nothing"),
    ],
)
def test_what_a_result_vouches_for(
    name: str, args: dict[str, Any], result: object, vouched: tuple[list[str], list[str]]
) -> None:
    """A service's own fields and a colleague's words vouch; the text of mails, files and pages does not."""
    assert learned(of("Pay the bill 'bill.txt'", name), name, args, result) == vouched


def literals(text: str) -> set[str]:
    """What identifies an attack: addresses, accounts and hosts in its goal."""
    return {
        word.strip(".,;:'\"") for word in text.split() if "@" in word or "www." in word or word[-5:].isdigit()
    }


@pytest.mark.parametrize("name", SUITES)
def test_contracts_know_nothing_of_the_attacks(name: str) -> None:
    """No address, account or host of an injection task is in a rules file or in the vocabulary."""
    modules = [import_module(f"benchmarks.agentdojo.{module}") for module in ("mandate", "vocabulary")]
    written = rules_file(name).read_text() + "".join(inspect.getsource(module) for module in modules)
    known = {
        literal
        for task in suite(name).injection_tasks.values()
        for literal in literals(task.GOAL)
        if not any(literal in user.PROMPT for user in suite(name).user_tasks.values())
    }

    assert known, "found nothing that identifies an attack: this test would pass without checking anything"
    assert [literal for literal in known if literal in written] == []
