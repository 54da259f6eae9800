"""
Contracts for the tool calls of Claude Code, through its hooks.

The names are loaded when they are used: each hook is a process that starts.
"""

from ..._lazy import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .answers import (
        HookAnswer,
        HookSettings,
        after_tool,
        at_end,
        before_tool,
        default_state_dir,
        deny_output,
        fault_line,
    )

__all__ = (
    "HookAnswer",
    "HookSettings",
    "after_tool",
    "at_end",
    "before_tool",
    "default_state_dir",
    "deny_output",
    "fault_line",
)

__getattr__, __dir__ = lazy_names(globals(), dict.fromkeys(__all__, "answers"))
