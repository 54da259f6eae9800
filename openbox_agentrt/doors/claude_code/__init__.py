"""
Contracts for the tool calls of Claude Code, through its hooks.

The names are loaded when they are used: each hook is a process that starts.
"""

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


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import answers

    return getattr(answers, name)
