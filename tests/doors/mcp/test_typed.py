"""A server of the SDK makes values of its types of what is sent, and those are judged."""

import asyncio
import enum
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import Client
from mcp.client._memory import InMemoryTransport
from mcp.server import Server
from mcp.server.extension import Extension
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult, ListToolsResult, TextContent
from mcp_types import Tool as ListedTool
from pydantic import BaseModel, BeforeValidator, Field

from openbox_agentrt._plain.arguments import plain_arguments
from openbox_agentrt.acel import Session, at_most_n_times, at_most_total, matching, max_distinct
from openbox_agentrt.doors.mcp import ACELMiddleware


class Color(enum.Enum):
    RED = "red"


class Request(BaseModel):
    cmd: str
    sizes: list[int] = Field(default_factory=lambda: [1])


class Shop:
    """A typed server behind a gate, and what its tools received."""

    def __init__(self, *contracts: Any, extensions: tuple[Extension, ...] = ()) -> None:
        self.session = Session(contracts=contracts)
        self.ran: list[dict[str, Any]] = []
        gate = ACELMiddleware(self.session)
        self.server: MCPServer[Any] = MCPServer(
            "shop", middleware=[gate], log_level="CRITICAL", extensions=list(extensions)
        )

        @self.server.tool(structured_output=False)
        def buy(
            customer: int,
            to: list[str] | None = None,
            request: Request | None = None,
            color: Color = Color.RED,
            note: Annotated[str, BeforeValidator(lambda text: str(text).strip())] = "none",
            price: float = 1.0,
        ) -> str:
            self.ran.append({name: value for name, value in locals().items() if name != "self"})
            return "bought"

    async def call(self, *calls: dict[str, Any]) -> list[str]:
        async with Client(InMemoryTransport(self.server), mode="legacy") as client:
            results = [await client.call_tool("buy", args) for args in calls]
        return [what(result) for result in results]


def what(result: CallToolResult) -> str:
    assert isinstance(result.content[0], TextContent)
    text = result.content[0].text
    return ("refused" if text.startswith("ACEL HALT") else "error") if result.is_error else "done"


async def test_one_customer_has_one_budget() -> None:
    """However its number is written."""
    shop = Shop(at_most_n_times("buy", 1, key="customer"))

    came = await shop.call(*({"customer": spelling} for spelling in (7, "7", " 7", "07", "+7", 7.0)))

    assert came == ["done"] + ["refused"] * 5


async def test_a_list_sent_as_text_is_a_list() -> None:
    """Each of its items counts."""
    shop = Shop(max_distinct("buy", "to", 2))

    assert await shop.call(
        {"customer": 1, "to": ["ann", "bob"]}, {"customer": 1, "to": '["eve", "mallory"]'}
    ) == ["done", "refused"]


@pytest.mark.parametrize("sent", [{"cmd": "rm -rf /"}, '{"cmd": "rm \\u002drf /"}'], ids=["object", "text"])
async def test_an_object_sent_as_text_is_an_object(sent: Any) -> None:
    """A ban on its field holds, whatever its spelling."""
    shop = Shop(at_most_n_times(matching("buy", "rm -rf", field="request.cmd"), 0))

    assert await shop.call({"customer": 1, "request": sent}) == ["refused"]


async def test_an_amount_sent_as_text_is_that_amount() -> None:
    """It is not refused as unreadable, and it adds up."""
    shop = Shop(at_most_total("buy", "price", 10))

    assert await shop.call({"customer": 1, "price": "9"}, {"customer": 1, "price": 2}) == ["done", "refused"]


async def test_what_is_left_out_is_judged() -> None:
    """A default that is banned does not run."""
    shop = Shop(at_most_n_times(matching("buy", "^red$", field="color"), 0))

    assert await shop.call({"customer": 1}) == ["refused"]


async def test_arguments_that_the_types_do_not_take_are_no_call() -> None:
    """The client gets the server's own words, and nothing counts."""
    shop = Shop(at_most_n_times("buy", 1))

    assert await shop.call({"customer": "seven"}, {}, {"customer": 7}) == ["error", "error", "done"]
    assert len(shop.ran) == 1
    async with Client(InMemoryTransport(shop.server), mode="legacy") as client:
        told = await client.call_tool("buy", {"customer": "seven"})
    plain: MCPServer[Any] = MCPServer("plain", log_level="CRITICAL")

    @plain.tool(structured_output=False)
    def buy(customer: int) -> str:
        return "bought"

    async with Client(InMemoryTransport(plain), mode="legacy") as client:
        expected = await client.call_tool("buy", {"customer": "seven"})
    assert told.content == expected.content


async def test_an_alias_that_the_sdk_passes_on_is_judged_as_such() -> None:
    """It calls the function by the alias, which then fails on it: with a gate as without one."""
    session, told = Session(), []
    judged: list[dict[str, Any]] = []

    def look(state: Any, args: Any) -> bool:
        judged.append(dict(args))
        return True

    session.register_tool("buy", precondition=look)
    for gates in ([], [ACELMiddleware(session)]):
        server: MCPServer[Any] = MCPServer("shop", middleware=gates, log_level="CRITICAL")

        @server.tool(structured_output=False)
        def buy(customer: Annotated[int, Field(alias="cust")]) -> str:
            raise AssertionError("the SDK passes the parameter's own name on: judge it under that")

        async with Client(InMemoryTransport(server), mode="legacy") as client:
            told.append((await client.call_tool("buy", {"cust": "7"})).content)

    assert told[0] == told[1]
    assert judged == [{"cust": 7}]


async def test_where_the_types_are_not_found_the_listed_schema_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version of the SDK may keep them elsewhere: text is then no number any more."""
    monkeypatch.setattr("openbox_agentrt.doors.mcp.typed._typed_server", lambda call_next: None)
    shop = Shop(at_most_n_times("buy", 1, key="customer"))

    assert await shop.call({"customer": "7"}, {"customer": 7}, {"customer": 7.0}) == [
        "refused",
        "done",
        "refused",
    ]


def impure(extensions: tuple[Extension, ...] = ()) -> tuple[Session, MCPServer[Any], list[Any]]:
    """A server whose types give another value each time, its session, and what its tool received."""
    session, numbers = Session(), iter(range(100))
    ran: list[Any] = []
    server: MCPServer[Any] = MCPServer(
        "shop", middleware=[ACELMiddleware(session)], log_level="CRITICAL", extensions=list(extensions)
    )

    @server.tool(structured_output=False)
    async def buy(
        customer: Annotated[int, BeforeValidator(lambda sent: next(numbers))],
        order: Annotated[int, Field(default_factory=lambda: next(numbers))],
        again: bool = False,
    ) -> str:
        ran.append({"customer": customer, "order": order, "again": again})
        if again and len(ran) == 1:
            await server.call_tool("buy", {"customer": 7, "again": True})
        return "bought"

    return session, server, ran


@pytest.mark.parametrize("extended", [False, True])
async def test_a_validator_that_gives_another_value_each_time_is_asked_once(extended: bool) -> None:
    """The function gets the very value that was judged, and so does one behind an extension."""
    session, server, ran = impure((Passing(),) if extended else ())

    async with Client(InMemoryTransport(server), mode="legacy") as client:
        for _ in range(3):
            assert what(await client.call_tool("buy", {"customer": 7})) == "done"

    assert ran == [{"customer": n, "order": n + 1, "again": False} for n in (0, 2, 4)]
    assert [row["args"] for row in session.trace] == ran


async def test_what_was_judged_is_for_one_call() -> None:
    """A call within a call, of the same tool with the same arguments, is validated for itself."""
    session, server, ran = impure()

    async with Client(InMemoryTransport(server), mode="legacy") as client:
        assert what(await client.call_tool("buy", {"customer": 7, "again": True})) == "done"

    assert [row["customer"] for row in ran] == [0, 2]
    assert [row["args"] for row in session.trace] == ran[:1]


async def test_calls_at_once_get_each_their_own_values() -> None:
    """Though their arguments are the same."""
    session, server, ran = impure()

    async with Client(InMemoryTransport(server), mode="legacy") as client:
        await asyncio.gather(*(client.call_tool("buy", {"customer": 7}) for _ in range(8)))

    assert sorted(row["customer"] for row in ran) == list(range(0, 16, 2))
    assert sorted(map(str, ran)) == sorted(str(row["args"]) for row in session.trace)


class Passing(Extension):
    identifier = "com.example/passing"


async def test_a_server_with_extensions_is_typed_too() -> None:
    """Its handler stands inside of theirs."""
    shop = Shop(at_most_n_times("buy", 1, key="customer"), extensions=(Passing(),))

    assert await shop.call({"customer": 7}, {"customer": "7"}) == ["done", "refused"]


def lowlevel(*contracts: Any, schema: Any, ran: list[Any], session: Session | None = None) -> Server[Any]:
    async def call(ctx: Any, params: Any) -> CallToolResult:
        ran.append(params.arguments)
        return CallToolResult(content=[TextContent(type="text", text="done")])

    async def listed(ctx: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[ListedTool(name="buy", input_schema=schema)])

    server: Server[Any] = Server("low", on_call_tool=call, on_list_tools=listed)
    server.middleware.append(ACELMiddleware(session or Session(contracts=contracts)))
    return server


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_server_without_types_is_held_to_what_it_lists(mode: str) -> None:
    """Text in the place of a number is refused, and defaults are judged."""
    ran: list[Any] = []
    schema = {
        "type": "object",
        "properties": {"customer": {"type": "integer"}, "to": {"type": "string", "default": "eve"}},
    }
    banned = at_most_n_times(matching("buy", "eve", field="to"), 0)
    server = lowlevel(banned, schema=schema, ran=ran)

    async with Client(server, mode=mode) as client:
        came = [
            what(await client.call_tool("buy", args))
            for args in ({"customer": "7", "to": "ann"}, {"customer": 7}, {"customer": 7, "to": "ann"})
        ]

    assert came == ["refused", "refused", "done"]
    assert ran == [{"customer": 7, "to": "ann"}]


@pytest.mark.parametrize("mode", ["enforce", "shadow"])
async def test_a_call_that_is_not_as_listed_is_a_violation(mode: Any) -> None:
    """Evidence has it as any refusal; in shadow, as what would be refused."""
    ran: list[Any] = []
    schema = {"type": "object", "properties": {"customer": {"type": "integer"}}}
    session = Session(mode=mode)

    async with Client(lowlevel(schema=schema, ran=ran, session=session)) as client:
        await client.call_tool("buy", {"customer": "7"})

    assert len(ran) == (mode == "shadow")
    (violation,) = session.violations
    assert (violation.tool, violation.mode, violation.blocked) == ("buy", mode, mode == "enforce")
    assert violation.args == {"customer": "7"}


TEXTS = st.sampled_from(
    ["7", " 7", "07", '["a"]', "[]", '{"cmd": "x"}', "red", "null", "1.0", "true", "", "x"]
)
JSON = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | TEXTS
CALLS = st.dictionaries(
    st.sampled_from(["customer", "to", "request", "color", "note", "price", "extra"]),
    JSON | st.lists(JSON, max_size=2) | st.dictionaries(st.sampled_from(["cmd", "sizes"]), JSON, max_size=2),
    max_size=5,
)


@given(calls=st.lists(CALLS, min_size=1, max_size=8))
@settings(max_examples=40, deadline=None)
def test_contracts_see_what_the_tool_receives(calls: list[dict[str, Any]]) -> None:
    """Whatever a client sends, the contracts judged the very values that the function got."""
    shop = Shop()

    asyncio.run(shop.call(*({"customer": 7, **call} for call in calls)))

    assert [row["args"] for row in shop.session.trace] == [plain_arguments(ran) for ran in shop.ran]
