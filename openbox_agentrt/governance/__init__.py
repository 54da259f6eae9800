"""A user's hold on governance: one connection to Core, and the ways to put work under it."""

from __future__ import annotations

from .._activity.custom import GovernedActivity
from .._loop.loop import GovernedAgentLoop
from .._run.contracts.rules_in_force import Reloaded
from .._run.current import current_run
from .._run.state import RunState
from .create import create_openbox_agentrt
from .governance import OpenBoxAgentRTGovernance

__all__ = (
    "GovernedActivity",
    "GovernedAgentLoop",
    "OpenBoxAgentRTGovernance",
    "Reloaded",
    "RunState",
    "create_openbox_agentrt",
    "current_run",
)
