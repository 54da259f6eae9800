"""
Contracts around LangChain tools.

Runs without a key: the tool calls of a model are written out. Needs langchain-core
(``pip install '.[langchain]'``).
"""

from langchain_core.messages import ToolCall
from langchain_core.tools import BaseTool, StructuredTool

from openbox_agentrt.acel import Session, must_precede
from openbox_agentrt.doors.langchain import govern_tool


def validate_record(record_id: str) -> str:
    """Validate a record."""
    return f"validated {record_id}"


def delete_record(record_id: str) -> str:
    """Delete a record."""
    return f"deleted {record_id}"


def build_session() -> Session:
    """A session in which nothing is deleted that was not validated."""
    session = Session()
    session.add_contract(must_precede("validate_record", "delete_record"))
    return session


def build_tools(session: Session) -> tuple[BaseTool, BaseTool]:
    """The two tools, governed. Give them to `create_agent`, `ToolNode` or any other runtime."""
    validate_tool, delete_tool = (
        govern_tool(session, StructuredTool.from_function(function))
        for function in (validate_record, delete_record)
    )
    return validate_tool, delete_tool


def main() -> None:
    """What the model reads when it deletes too early, and when it does not."""
    session = build_session()
    tools = {tool.name: tool for tool in build_tools(session)}
    for call_id, name in [
        ("call_1", "delete_record"),
        ("call_2", "validate_record"),
        ("call_3", "delete_record"),
    ]:
        message = tools[name].invoke(
            ToolCall(name=name, args={"record_id": "r1"}, id=call_id, type="tool_call")
        )
        print(message.tool_call_id, message.status, message.content)


if __name__ == "__main__":
    main()
