"""The periods of the calendar after which a limit counts anew."""

from __future__ import annotations

from typing import Literal

Per = Literal["hour", "day", "week", "month"]
