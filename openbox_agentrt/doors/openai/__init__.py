"""The door for OpenAI function calling."""

from .tool_call import MalformedToolCallError
from .tools import arun_tool_calls, guard_openai_tool_call, run_tool_calls

__all__ = ("MalformedToolCallError", "arun_tool_calls", "guard_openai_tool_call", "run_tool_calls")
