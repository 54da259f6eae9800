"""acel-core's names for the hooks of Claude Code. The code is in `doors.claude_code.acel_core_names`."""

from ..doors.claude_code.acel_core_names import (
    DEFAULT_STATE_DIR,
    _safe_session_id,
    _trace_path,
    main_posttooluse,
    main_pretooluse,
    posttooluse,
    pretooluse,
)

__all__ = (
    "DEFAULT_STATE_DIR",
    "_safe_session_id",
    "_trace_path",
    "main_posttooluse",
    "main_pretooluse",
    "posttooluse",
    "pretooluse",
)
