"""acel-core's names for the doors to callables and to OpenAI function calling. The code is in `doors`."""

from ..doors.callables import guard
from ..doors.openai import guard_openai_tool_call

__all__ = ("guard", "guard_openai_tool_call")
