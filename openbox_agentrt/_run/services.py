"""
Hold what a governance gives to its runs. It knows none of them.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from .._core.hooks.context_store import BoundedContextStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Token

    from openbox_core.context import ContextStore

    from .._core.gate import CoreGate
    from .._core.hooks.context_store import HasContext
    from ..options import GovernanceOptions
    from .contracts.sessions import Sessions
    from .observers import Observers


class Services:
    """
    Hold what the runs of one governance have in common.

    Attributes:
        core: Whom they ask.
        options: The options of the governance.
        enforces_outputs: Whether what Core says about a result decides what is seen of it.
        store: Where the base SDK's instrumentation looks up the activity that nested I/O belongs to.
        bind: Binds an activity there, for as long as `store` is not reset.
        sessions: What runs with one session id share.
        observers: Told of every decision.
        agent_did: Identity of the agent, where it has one of the kind that hands over.
        marker_key: Key of the marks that stand for results which must not be seen.
    """

    __slots__ = (
        "_agent_name",
        "agent_did",
        "bind",
        "core",
        "enforces_outputs",
        "marker_key",
        "observers",
        "options",
        "sessions",
        "store",
    )

    def __init__(
        self,
        core: CoreGate,
        options: GovernanceOptions,
        store: ContextStore,
        *,
        sessions: Sessions,
        observers: Observers,
        agent_name: str | None = None,
        agent_did: str | None = None,
        marker_key: bytes | None = None,
    ) -> None:
        self.core = core
        self.options = options
        self.enforces_outputs = options.enforces_outputs
        self.store = store
        self.bind: Callable[[HasContext], Token[Any]] = (
            store.bind_activity
            if isinstance(store, BoundedContextStore)
            else lambda activity: store.bind(activity.context)
        )
        self.sessions = sessions
        self.observers = observers
        self._agent_name = agent_name or options.agent_name
        self.agent_did = agent_did or options.agent_did
        self.marker_key = secrets.token_bytes(32) if marker_key is None else marker_key

    def name_of_agent(self, name: str | None) -> str | None:
        """Give the configured name, or `name` of the agent that runs."""
        return self._agent_name or name
