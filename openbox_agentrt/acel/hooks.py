"""acel-core's names for the hooks of Claude Code. The code is in `doors.acel_core_hooks`."""

from ..doors.acel_core_hooks import (
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
