"""A person decides in a browser: the real one, over the loopback."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from agent_rt import (
    AgentConfig,
    AgentLoop,
    ContentPart,
    ModelMessage,
    ModelSettings,
    ToolDefinition,
    ToolRegistry,
)
from playwright.sync_api import expect

from openbox_agentrt import create_openbox_agentrt
from openbox_agentrt.testing import Call, Reply, ScriptedProvider
from tests.console.desk import Desk, OpenDesk, OpenPage

REFUND = {"customer_id": "cus_3107", "order_id": "ord_88214", "amount": 312.4}
HOSTILE = {
    "markup": "<b>bold</b><script>document.title = 'owned'</script><img src=x onerror=alert(1)>",
    "turned": "R-88214\u202e4100",
    "nothing": "a\u0000b",
    "quote": "\"' onmouseover='alert(1)",
    "long": "begins with these words " + "x" * 1_048_576 + " and ends with these",
}


def test_a_call_that_waits_is_on_the_screen_without_a_reload(desk: Desk, open_page: OpenPage) -> None:
    """It comes by itself, with its arguments and the time that is left."""
    page = open_page(desk)
    expect(page.locator("h1")).to_have_text("Nothing waits for you")

    desk.start()
    desk.ask("refund", REFUND)

    expect(page.locator("h1")).to_have_text("One call waits for you")
    expect(page.locator(".ask .what")).to_have_text("refund cus_3107, ord_88214, 312.4")
    expect(page.locator(".ask .left")).to_contain_text("left")
    expect(page.locator(".tabs .n")).to_contain_text("1")
    expect(page).to_have_title("1 waits, approvals")


def test_it_is_approved_by_a_click_under_the_name_of_who_sits_there(desk: Desk, open_page: OpenPage) -> None:
    """The name and the note go into the decision."""
    approval = desk.ask("refund", REFUND)
    page = open_page(desk)

    page.get_by_label("Note").fill("Photo checked.")
    page.get_by_role("button", name="Approve").click()

    expect(page.locator("h1")).to_have_text("Nothing waits for you")
    expect(page.locator("#settled tbody tr")).to_contain_text("night-desk")
    decided = next(one for one in desk.core.approvals() if one.id == approval)
    assert (decided.state, decided.decided_by, decided.note) == ("approved", "night-desk", "Photo checked.")


def test_it_works_without_javascript(desk: Desk, open_page: OpenPage) -> None:
    """A plain form does the same, and the browser says where it comes from."""
    desk.ask("refund", REFUND)
    page = open_page(desk, java_script_enabled=False)

    page.get_by_role("button", name="Reject").click()

    expect(page.locator("h1")).to_have_text("Nothing waits for you")
    assert [one.state for one in desk.core.approvals()] == ["rejected"]


def test_the_second_of_two_tabs_is_told(desk: Desk, open_page: OpenPage) -> None:
    """What was decided elsewhere is said, and not decided again."""
    approval = desk.ask("refund", REFUND)
    # A tab that hears of nothing.
    page = open_page(desk, expected=("status of 409",), java_script_enabled=False)
    desk.core.reject(approval, "Ask for the receipt.", by="ops-lead")

    page.get_by_role("button", name="Approve").click()

    said = page.get_by_role("alert").filter(has_text="Already decided")
    expect(said).to_contain_text("ops-lead rejected this call")
    expect(said).to_contain_text("Ask for the receipt.")
    expect(said).to_contain_text("Your answer was not used.")
    assert [one.state for one in desk.core.approvals()] == ["rejected"]


def test_an_open_call_that_is_decided_elsewhere_stays_and_says_so(desk: Desk, open_page: OpenPage) -> None:
    """Nothing moves under the hands of whoever reads it."""
    approval = desk.ask("refund", REFUND)
    page = open_page(desk)
    page.get_by_label("Note").fill("half a sentence")

    desk.core.approve(approval, "Photo checked.", by="ops-lead")

    expect(page.get_by_role("alert").filter(has_text="Already decided")).to_contain_text("ops-lead approved")
    expect(page.get_by_label("Note")).to_have_value("half a sentence")
    expect(page.locator("form.decide button").first).to_be_disabled()


def test_one_that_comes_shuts_nothing(desk: Desk, open_page: OpenPage) -> None:
    """It is added below what is open, and announced once."""
    desk.ask("refund", REFUND)
    page = open_page(desk)
    page.get_by_label("Note").fill("half a sentence")

    desk.ask("close", {"customer_id": "cus_5120"}, activity="a-2")

    expect(page.locator(".ask")).to_have_count(2)
    expect(page.locator(".ask[open] .what")).to_have_text("refund cus_3107, ord_88214, 312.4")
    expect(page.locator(".ask[open] textarea")).to_have_value("half a sentence")
    expect(page.locator("#news")).to_have_text("One more call waits for you")


def test_one_that_expires_while_it_is_read_cannot_be_decided(desk: Desk, open_page: OpenPage) -> None:
    """The buttons say so, and nothing is called rejected that nobody rejected."""
    desk.ask("refund", REFUND)
    page = open_page(desk)
    page.clock.install()
    page.reload()
    expect(page.get_by_role("button", name="Approve")).to_be_enabled()

    page.clock.fast_forward("11:00")

    expect(page.get_by_role("alert").filter(has_text="Expired while you were reading")).to_be_visible()
    expect(page.locator('button[value="approve"]')).to_contain_text("Expired at")
    expect(page.locator('button[value="approve"]')).to_be_disabled()


def test_an_answer_that_comes_too_late_is_not_used(open_desk: OpenDesk) -> None:
    """Whatever the page said: the call did not run, and was not rejected by anybody."""
    now = [1_800_000_000.0]
    desk = open_desk(clock=lambda: now[0], now=lambda: now[0])
    approval = desk.ask("refund", REFUND)
    with desk.client() as client:
        page = client.get(f"/approvals/{approval}").text
        form = {
            name: page.partition(f'name="{name}" value="')[2].partition('"')[0] for name in ("token", "shown")
        }
        now[0] += 601
        answer = client.post(
            f"/approvals/{approval}", data=form | {"do": "approve"}, headers={"origin": desk.url}
        )

    assert answer.status_code == 409
    assert "Expired while you were reading" in answer.text
    assert "Nobody answered within 10 min" in answer.text


def test_arguments_are_text_whatever_they_hold(desk: Desk, open_page: OpenPage) -> None:
    """Markup does nothing, what cannot be seen has its number, and long text is there to the last word."""
    desk.ask("mail", HOSTILE)
    page = open_page(desk)
    shown = page.locator(".kv")

    expect(shown).to_contain_text("<script>document.title = 'owned'</script>")
    expect(shown).to_contain_text("U+202E")
    expect(shown).to_contain_text("U+0000")
    expect(shown).to_contain_text("and ends with these")
    expect(page).to_have_title("1 waits, approvals")
    assert page.locator(".kv img, .kv script").count() == 0
    assert len(page.content()) < 60_000

    page.locator(".fold summary").click()
    expect(page.locator(".fold pre")).to_contain_text("x and ends with these")


def test_a_secret_is_on_no_page_and_in_no_address(open_desk: OpenDesk, open_page: OpenPage) -> None:
    """It has a mark, which is the same for the same value."""
    desk = open_desk(redact_fields=["iban"])
    arguments = {"iban": "DE02120300000000202051", "again": {"iban": "DE02120300000000202051"}}
    approval = desk.ask("refund", arguments)
    seen: list[str] = []
    page = open_page(desk)
    page.on("request", lambda request: seen.append(request.url))
    page.on("response", lambda response: seen.append(response.text() if response.status == 200 else ""))

    for path in (
        "/approvals",
        f"/approvals/{approval}",
        "/runs",
        "/runs/run-1",
        f"/approvals/{approval}/values/0",
    ):
        page.goto(f"{desk.url}{path}")
        seen.append(page.content())
    with desk.client() as client:
        seen += [
            client.get(f"/api/v1/{path}").text
            for path in ("approvals", "runs/run-1", f"approvals/{approval}")
        ]

    assert not any("DE0212" in text for text in seen)
    assert page.locator("body").inner_text() != ""
    page.goto(f"{desk.url}/approvals")
    marks = page.locator(".kv .hid").all_inner_texts()
    assert len(marks) == 2
    assert marks[0] == marks[1]


def test_a_console_that_is_started_anew_is_found_again(desk: Desk, open_page: OpenPage) -> None:
    """Meanwhile the page says how old it is, and decisions are off; nobody has to sign in again."""
    approval = desk.ask("refund", REFUND)
    page = open_page(desk, expected=("ERR_",))
    expect(page.get_by_role("button", name="Approve")).to_be_enabled()

    desk.stop()

    expect(page.locator("#cut")).to_contain_text("Not live since")
    expect(page.locator(".live")).to_contain_text("Not live since")
    expect(page.get_by_role("button", name="Approve")).to_be_disabled()
    desk.core.approve(approval, by="ops-lead")
    desk.serve(port=int(desk.url.rpartition(":")[2]))
    expect(page.locator("#cut")).to_be_hidden()
    expect(page.get_by_role("alert").filter(has_text="Already decided")).to_contain_text("ops-lead approved")


def test_many_tabs_share_one_stream(desk: Desk, open_page: OpenPage) -> None:
    """A browser opens six connections to a host: were each a stream, the seventh tab would stay empty."""
    first = open_page(desk)
    # It asks for its stream a moment after it was loaded, and that is not one of those below.
    while not first.evaluate("stream !== null && stream.readyState === EventSource.OPEN"):
        first.wait_for_timeout(20)
    streams: list[str] = []
    first.context.on(
        "request", lambda request: streams.append(request.url) if request.url.endswith("/stream") else None
    )
    others = [first.context.new_page() for _ in range(7)]
    for page in others:
        page.goto(f"{desk.url}/approvals")
    desk.ask("refund", REFUND)
    for page in (first, *others):
        expect(page).to_have_title("1 waits, approvals")
    assert streams == []  # the first tab has it

    first.close()
    desk.ask("close", {"customer_id": "cus_5120"}, activity="a-2")

    for page in others:
        expect(page).to_have_title("2 wait, approvals")
    assert len(streams) == 1


def test_whoever_signs_out_in_one_tab_is_out_in_all(desk: Desk, open_page: OpenPage) -> None:
    """Nothing that was on the screen stays there."""
    page = open_page(desk, expected=("401",))
    other = page.context.new_page()
    other.goto(f"{desk.url}/approvals")
    expect(other.locator("h1")).to_have_text("Nothing waits for you")

    page.get_by_role("button", name="Sign out").click()

    expect(page.locator("h1")).to_have_text("You are signed out")
    desk.start()
    expect(other.locator("body")).to_contain_text("open the link that the terminal shows")


def test_it_is_decided_by_keyboard_alone(desk: Desk, open_page: OpenPage) -> None:
    """Skip link, fold, note and buttons are reached in the order of the page."""
    desk.ask("refund", REFUND)
    page = open_page(desk)
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to the page")
    page.keyboard.press("Enter")

    reached = []
    for _ in range(8):
        page.keyboard.press("Tab")
        reached.append(page.locator(":focus").evaluate("element => element.value || element.tagName"))
        if reached[-1] == "reject":
            break
    page.keyboard.press("Enter")

    assert reached[-1] == "reject"
    assert "TEXTAREA" in reached
    expect(page.locator("h1")).to_have_text("Nothing waits for you")
    assert [one.state for one in desk.core.approvals()] == ["rejected"]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("decided", ["approve", "reject"])
def test_an_agent_waits_and_goes_on_when_somebody_has_clicked(
    desk: Desk, open_page: OpenPage, tmp_path: Path, decided: str
) -> None:
    """What a person writes when they say no reaches the model; who it was stands in the decision."""
    ran: list[dict[str, Any]] = []
    provider = ScriptedProvider(
        Reply(calls=(Call(name="refund", arguments=REFUND),)), Reply(text="I am done.")
    )
    decisions: list[Any] = []

    async def agent() -> None:
        governance = await create_openbox_agentrt(
            core=desk.core,
            on_tool_block="return_error",
            approval_poll_interval_ms=20,
            on_decision=decisions.append,
            record="all",
            evidence=tmp_path / "log.jsonl",
        )
        async with governance:
            loop = governance.govern_loop(AgentLoop(provider=provider, tool_registry=_tools(ran)))
            config = AgentConfig(name="refund-desk", instructions="", model=ModelSettings(model="scripted-1"))
            prompt = ModelMessage(role="user", content=(ContentPart(type="text", text="Refund it."),))
            await loop.run(config, [prompt])

    thread = threading.Thread(target=lambda: asyncio.run(agent()))
    thread.start()
    page = open_page(desk)
    page.get_by_label("Note").fill("ask for the receipt first")
    page.locator(f'button[value="{decided}"]').click()
    thread.join(60)

    assert not thread.is_alive()
    assert bool(ran) is (decided == "approve")
    decision = next(one for one in decisions if one.event == "refund")
    assert decision.decided_by == "night-desk"
    evidence = (tmp_path / "log.jsonl").read_text()
    assert '"decided_by":"night-desk"' in evidence
    if decided == "reject":
        seen = repr(provider.requests[-1])
        assert "ask for the receipt first" in seen
        assert "night-desk" in seen


def _tools(ran: list[dict[str, Any]]) -> ToolRegistry:
    async def refund(arguments: Any, token: Any) -> dict[str, Any]:
        ran.append(dict(arguments))
        return {"done": True}

    registry = ToolRegistry()
    registry.register(
        ToolDefinition(
            name="refund", description="Pay back.", input_schema={"type": "object"}, side_effect="write"
        ),
        handler=refund,
    )
    return registry


def test_a_run_is_halted_in_two_steps_with_a_reason(desk: Desk, open_page: OpenPage) -> None:
    """Open, then say why; what waits there is withdrawn."""
    desk.start()
    desk.ask("refund", REFUND)
    page = open_page(desk, "/runs/run-1")
    page.locator(".halting summary").click()
    page.get_by_label("Reason").fill("it runs wild")

    page.locator(".btn-halt").click()

    expect(page.locator("h1")).to_have_text("The run was halted")
    expect(page.locator(".say-bad")).to_contain_text("it runs wild (halted by night-desk)")
    assert [(one.kind, one.value, one.by) for one in desk.core.halts()] == [("run", "run-1", "night-desk")]
    assert desk.core.pending_approvals() == []
    page.goto(f"{desk.url}/approvals")
    expect(page.locator("#settled tbody")).to_contain_text("Withdrawn")
