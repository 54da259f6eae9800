"""
The tools of the server as it lists them: asked for once, and again when they change.

Arguments are judged in the types that a tool was listed with, so the gate has to know them before the first
call. What the client lists on its own is taken note of; where it lists nothing, the gate asks.
"""

import itertools
import threading
import uuid
from collections.abc import Mapping
from typing import Any

from ..mcp.schema import OffSchemaError, read_by_schema

_METHOD_NOT_FOUND = -32601
_LIST_CHANGED = b"notifications/tools/list_changed"


class Listing:
    """
    Know the schemas of a server's tools.

    Args:
        schemas: Schemas by tool, if they are known. None: the server is asked.

    Attributes:
        answered: Set while no question is open.
    """

    def __init__(self, schemas: Mapping[str, Any] | None = None) -> None:
        self._schemas = dict(schemas or {})
        self._complete = schemas is not None
        # What the last question came to, for the call that waited for it.
        self._failed = False
        self._cursor: Any = None
        # No client can guess it, so none of its requests is taken for one of these.
        self._prefix = f"openbox-agentrt/{uuid.uuid4().hex}/"
        self._ids = itertools.count(1)
        self._asked: str | None = None
        self._lock = threading.Lock()
        self.answered = threading.Event()
        self.answered.set()

    def question(self, tool: str, params: object) -> dict[str, Any] | None:
        """
        Give the request that has to be answered before a call to `tool` can be judged, or None.

        Args:
            tool: Name of the tool.
            params: The params of the call; their protocol version is the request's.
        """
        with self._lock:
            if self._complete or tool in self._schemas or self._failed:
                return None
            self._asked = f"{self._prefix}{next(self._ids)}"
            self.answered.clear()
            meta = params.get("_meta") if isinstance(params, Mapping) else None
            asked: dict[str, Any] = {} if self._cursor is None else {"cursor": self._cursor}
            if isinstance(meta, Mapping):
                asked["_meta"] = {name: value for name, value in meta.items() if name != "progressToken"}
            return {"jsonrpc": "2.0", "id": self._asked, "method": "tools/list", "params": asked}

    def is_ours(self, id: object) -> bool:
        """Tell whether an answer is to a question of the gate's, a late one included."""
        return isinstance(id, str) and id.startswith(self._prefix)

    def is_settled(self, line: bytes) -> bool:
        """Tell whether a line of the server has nothing to say here."""
        return self._asked is None and _LIST_CHANGED not in line and self._prefix.encode() not in line

    def take(self, said: object, *, failed: bool) -> None:
        """Take the answer to the question: a page of tools, or an error."""
        body = said if isinstance(said, Mapping) else {}
        # A server that knows no such request lists nothing, so there is nothing to hold arguments to.
        lists_nothing = failed and body.get("code") == _METHOD_NOT_FOUND
        if not failed:
            self.note(body)
        with self._lock:
            self._cursor = None if failed else body.get("nextCursor")
            self._complete = lists_nothing or (not failed and self._cursor is None)
            self._failed = failed and not lists_nothing
            self._asked = None
            self.answered.set()

    def fail(self) -> None:
        """Take it that the server does not answer."""
        with self._lock:
            self._failed = True
            self._asked = None
            self.answered.set()

    def note(self, result: object) -> None:
        """Take note of a list of tools, or of a page of it."""
        tools = result.get("tools") if isinstance(result, Mapping) else None
        with self._lock:
            for tool in tools if isinstance(tools, list) else ():
                if isinstance(tool, Mapping) and isinstance(tool.get("name"), str):
                    self._schemas[tool["name"]] = tool.get("inputSchema")

    def heed(self, method: bytes) -> None:
        """Take note of a request or notification of the server: its tools may have changed."""
        if _LIST_CHANGED in method:
            with self._lock:
                self._schemas.clear()
                self._complete = False

    def read(self, tool: str, args: Mapping[str, Any]) -> dict[str, Any]:
        """
        Give the arguments of a call as the tool will read them.

        Raises:
            OffSchemaError: They are not of the types that it was listed with, or nobody knows these.
        """
        with self._lock:
            failed, self._failed = self._failed, False
            known = self._complete or tool in self._schemas
            schema = self._schemas.get(tool)
        if failed and not known:
            raise OffSchemaError("the server did not say which arguments the tool takes")
        return read_by_schema(args, schema)
