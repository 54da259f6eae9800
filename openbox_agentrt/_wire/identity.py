"""Say who a run is to Core, and which keys of an event nobody may overwrite."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypedDict

from .payloads import json_safe

DEFAULT_WORKFLOW_TYPE: Final = "AgentRTRun"

RESERVED_KEYS: Final = frozenset(
    {
        "source",
        "event_type",
        "workflow_id",
        "run_id",
        "workflow_type",
        "task_queue",
        "activity_id",
        "activity_type",
        "activity_input",
        "activity_output",
        "signal_name",
        "signal_args",
        "status",
        "error",
        "timestamp",
        "session_id",
        "agent_name",
        "parent_workflow_id",
        "multi_agent_session_id",
        "hook_trigger",
        "spans",
        "span_count",
    }
)
"""Keys that `extra` may not hold: the base factories would let it change whose event this is."""


class CommonFields(TypedDict):
    workflow_id: str
    run_id: str
    workflow_type: str
    task_queue: str | None
    multi_agent_session_id: str | None
    timestamp: str | None


@dataclass(frozen=True, kw_only=True)
class RunIdentity:
    """
    Which run an event belongs to. Minted once per run and never reused: Core seals a workflow at its end.

    Attributes:
        parent_workflow_id: Workflow of the run that this one is nested in.
        multi_agent_session_id: Shared by a run and all the runs nested in it.
    """

    workflow_id: str
    run_id: str
    workflow_type: str = DEFAULT_WORKFLOW_TYPE
    task_queue: str = "agentrt"
    session_id: str | None = None
    agent_name: str | None = None
    parent_workflow_id: str | None = None
    multi_agent_session_id: str | None = None

    @cached_property
    def _fields(self) -> Mapping[str, str]:
        # Kept, since every event has them, and no field of the class, which is written down field by field.
        fields = {
            "workflow_id": self.workflow_id,
            "run_id": self.run_id,
            "workflow_type": self.workflow_type,
            "task_queue": self.task_queue,
            "multi_agent_session_id": self.multi_agent_session_id or None,
            "session_id": self.session_id,
            "agent_name": self.agent_name,
        }
        return {name: value for name, value in fields.items() if value is not None}

    @classmethod
    def mint(
        cls,
        *,
        task_queue: str = "agentrt",
        workflow_type: str | None = None,
        session_id: str | None = None,
        agent_name: str | None = None,
        parent_workflow_id: str | None = None,
        multi_agent_session_id: str | None = None,
        token: uuid.UUID | None = None,
    ) -> RunIdentity:
        """An identity nobody has used. `token` replaces the random part, for tests."""
        digits = (uuid.uuid4() if token is None else token).hex
        return cls(
            workflow_id=f"{task_queue}-{digits[:16]}",
            run_id=f"{task_queue}-run-{digits[16:]}",
            workflow_type=workflow_type or agent_name or DEFAULT_WORKFLOW_TYPE,
            task_queue=task_queue,
            session_id=session_id,
            agent_name=agent_name,
            parent_workflow_id=parent_workflow_id,
            multi_agent_session_id=multi_agent_session_id,
        )

    @property
    def prescreen_id(self) -> str:
        """Activity id of the pre-screen of this run's prompt."""
        return f"{self.run_id}-pre"

    def common_fields(self, timestamp: str | None) -> CommonFields:
        """The arguments that every factory of openbox_core takes."""
        return {
            "workflow_id": self.workflow_id,
            "run_id": self.run_id,
            "workflow_type": self.workflow_type,
            "task_queue": self.task_queue,
            "multi_agent_session_id": self.multi_agent_session_id,
            "timestamp": timestamp,
        }

    def payload(
        self, fields: Mapping[str, Any], extra: Mapping[str, Any] | None, max_bytes: int
    ) -> dict[str, Any]:
        """Give the payload of an event that has the given `extra_fields`, as those factories make it."""
        payload: dict[str, Any] = {**self._fields}
        if extra:
            taken = RESERVED_KEYS.intersection(extra)
            if taken:
                raise ValueError(f"extra must not hold {', '.join(repr(key) for key in sorted(taken))}")
            payload.update(json_safe(extra, max_bytes=max_bytes))
        for key, value in fields.items():
            if value is not None:
                payload[key] = value
        return payload

    def extra_fields(
        self, fields: Mapping[str, Any], extra: Mapping[str, Any] | None, max_bytes: int
    ) -> dict[str, Any]:
        """
        The flat keys beyond `common_fields`, without absent ones.

        Raises:
            ValueError: `extra` holds a key that says whose event this is.
        """
        payload = self.payload(fields, extra, max_bytes)
        return {key: value for key, value in payload.items() if key not in CommonFields.__required_keys__}
