"""The tree of errors."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import openbox_core
import pytest

from openbox_agentrt import errors
from openbox_agentrt.acel import Broken, Refusal
from openbox_agentrt.decision import Decision, Verdict

DECISION = Decision(event="refund", workflow_id="wf", run_id="run", verdict=Verdict.BLOCK, source="core")


def refused() -> errors.ContractRefusedError:
    broken = Broken(contract="must_precede(backup, delete)", needs="backup")
    return errors.ContractRefusedError(Refusal(tool="delete", step=2, broken=(broken,)), decision=DECISION)


EVERY: dict[str, Callable[[], Exception]] = {
    "governance": lambda: errors.GovernanceError("no", decision=DECISION, remedy="ask"),
    "blocked": lambda: errors.GovernanceBlockedError(
        "not on sundays", event="refund", policy_id="p1", decision=DECISION
    ),
    "contract": refused,
    "halt": lambda: errors.GovernanceHaltError("over", event="refund", policy_id="p1"),
    "guardrails": lambda: errors.GuardrailsValidationError(["toxic", "rude"], event="user_prompt"),
    "rejected": lambda: errors.ApprovalRejectedError(
        "no", event="refund", approval_id="a1", decided_by="ann"
    ),
    "expired": lambda: errors.ApprovalExpiredError("late", event="refund", approval_id="a1"),
    "timeout": lambda: errors.ApprovalTimeoutError(max_wait_ms=5, event="refund", approval_id="a1"),
    "unavailable": lambda: errors.GovernanceUnavailableError("HTTP 422", kind="refused", status=422),
    "ungoverned": lambda: errors.UngovernedCallError("refund"),
    "unmet": lambda: errors.UnmetContractError(["required_before_session_end(audit)"]),
    "option": lambda: errors.OptionError("validate", "must be True or False, not 1", value=1),
    "url": lambda: errors.InsecureURLError("api_url", "must use https", source="OPENBOX_URL"),
    "key": lambda: errors.MalformedKeyError("api_key", "has an unexpected form"),
}


@pytest.mark.parametrize("name", EVERY)
def test_an_error_survives_pickling(name: str) -> None:
    """Errors cross process boundaries with their message and their attributes."""
    error = EVERY[name]()

    again = pickle.loads(pickle.dumps(error))

    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.__dict__ == error.__dict__
    assert copy.copy(error).__dict__ == error.__dict__


@pytest.mark.parametrize("name", EVERY)
def test_a_message_is_one_line_in_lower_case_without_a_full_stop(name: str) -> None:
    """Messages can be put into a log line or another message."""
    message = str(EVERY[name]())

    assert "\n" not in message
    assert not message.endswith(".")
    assert message[0] == message[0].lower()


def test_a_long_reason_with_line_breaks_is_cut_in_the_message_only() -> None:
    """Core's explanation is kept in full as an attribute."""
    reason = "first line\n" + "x" * 10_000

    error = errors.GovernanceBlockedError(reason)

    assert error.reason == reason
    assert "\n" not in str(error)
    assert len(str(error)) < 600


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("blocked", openbox_core.GovernanceBlockedError),
        ("contract", openbox_core.GovernanceBlockedError),
        ("halt", openbox_core.GovernanceHaltError),
        ("guardrails", openbox_core.GuardrailsValidationError),
        ("rejected", openbox_core.ApprovalRejectedError),
        ("expired", openbox_core.ApprovalExpiredError),
        ("timeout", openbox_core.ApprovalTimeoutError),
        ("unavailable", openbox_core.GovernanceAPIError),
        ("option", openbox_core.OpenBoxConfigError),
        ("url", openbox_core.OpenBoxInsecureURLError),
        ("key", openbox_core.OpenBoxAuthError),
        ("ungoverned", openbox_core.OpenBoxError),
        ("unmet", openbox_core.OpenBoxError),
    ],
)
def test_an_error_is_also_the_one_of_openbox_core(name: str, base: type[Exception]) -> None:
    """Handlers written for other OpenBox packages catch ours."""
    assert isinstance(EVERY[name](), base)


def test_a_blocked_error_carries_what_openbox_core_s_has() -> None:
    """The attributes of the base class are there, and the verdict is an enum."""
    error = errors.GovernanceBlockedError("no", event="refund", decision=DECISION)

    assert (error.verdict, error.reason, error.url) == (Verdict.BLOCK, "no", "")
    assert error.decision is DECISION
    assert str(error) == "'refund' was blocked: no"


def test_only_an_unmet_contract_says_that_something_ran() -> None:
    """`ran` tells a refusal from a complaint about something that has happened."""
    ran = {name for name, make in EVERY.items() if getattr(make(), "ran", False)}

    assert ran == {"unmet"}


def test_a_key_that_is_malformed_is_nowhere_in_its_error() -> None:
    """Neither the message nor an attribute repeats a secret."""
    error = errors.MalformedKeyError("api_key", "has an unexpected form")

    assert error.value is None


def in_a_group() -> BaseException:
    return ExceptionGroup("tasks", [ValueError("x"), errors.GovernanceBlockedError("no")])


def as_a_cause() -> BaseException:
    wrapped = RuntimeError("tool failed")
    wrapped.__cause__ = errors.GovernanceBlockedError("no")
    return wrapped


def as_a_context() -> BaseException:
    wrapped = RuntimeError("tool failed")
    wrapped.__context__ = errors.GovernanceBlockedError("no")
    return wrapped


def in_a_circle() -> BaseException:
    one, two = RuntimeError("one"), RuntimeError("two")
    one.__cause__, two.__cause__ = two, one
    two.__context__ = errors.GovernanceBlockedError("no")
    return one


@pytest.mark.parametrize("wrap", [in_a_group, as_a_cause, as_a_context, in_a_circle])
def test_a_wrapped_governance_error_is_found(wrap: Callable[[], BaseException]) -> None:
    """Task groups and frameworks wrap errors; the one underneath still says what happened."""
    assert isinstance(errors.find_governance_error(wrap()), errors.GovernanceBlockedError)


def test_a_halt_is_found_before_anything_else() -> None:
    """Of several errors, the strictest is the one that matters."""
    halt = errors.GovernanceHaltError("over")
    group = ExceptionGroup("tasks", [errors.GovernanceBlockedError("no"), ExceptionGroup("inner", [halt])])

    assert errors.find_governance_error(group) is halt


def test_a_refusal_that_a_tool_hides_is_found() -> None:
    """`raise ... from None` hides the context from tracebacks, not from us."""
    error = RuntimeError("tool failed")
    error.__context__ = errors.GovernanceBlockedError("no")
    error.__suppress_context__ = True

    assert errors.find_governance_error(error) is error.__context__


def test_an_error_of_something_else_is_not_taken_for_one() -> None:
    """There is nothing to find in an ordinary failure."""
    assert errors.find_governance_error(RuntimeError("tool failed")) is None


def test_a_halt_that_no_call_brought_about_is_of_the_run() -> None:
    """Nobody asked for anything then: no name of an event says it better."""
    assert str(errors.GovernanceHaltError("enough")) == "the run was halted: enough"
