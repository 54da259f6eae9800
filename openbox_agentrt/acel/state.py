"""acel-core's module name. The code is in `openbox_agentrt.acel.memory.state`."""

from .memory.state import StateDraft, StateStore, StateView

__all__ = ("StateDraft", "StateStore", "StateView")
