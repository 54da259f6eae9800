"""
The gate of the proxy: what of the client's lines reaches the server, and what becomes of each call.

It does no I/O. A line from the client goes in, and what to send to either side comes out; a line from the
server goes in, and the line to pass on comes out.

An answer belongs to a call by its id, so ids decide what counts as done. While an answer is owed, its id
cannot be used again: the answer to a ``ping`` that borrowed the id of a failing ``backup`` would else pass
for its success.
"""

import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from ...acel import Session
from ...acel.engine.call.lifecycle import conclude
from ...acel.halts import heed
from ...acel.outcome import OutcomeHook
from ..mcp.calls import CALL, ServerCall, gated_methods
from ..mcp.outcome import ServerReading, is_waiting_error
from ..mcp.refusal import off_schema, refused_data, text_of, withheld_data
from ..mcp.schema import OffSchemaError
from ..unfit import report_unclear, report_unjudged
from .listing import Listing
from .owed import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, Owed, error_of, line_of
from .reading import Message, Noise, Unclear, id_key, read_client_line
from .spelling import NamedFields

log = logging.getLogger(__name__)

_MAX_SPENT = 10_000
_ID_IN_USE = "the id of the request is in use"
_PROTOCOL_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"


class _Response(msgspec.Struct):
    # What of a server's line decides whether it answers a call; the rest is not looked at.
    id: int | float | str | msgspec.UnsetType | None = msgspec.UNSET
    method: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """
    Say what to do with a line from the client.

    Attributes:
        to_server: What to send on; empty if nothing is.
        to_client: What to answer at once; empty if nothing is.
        again: The line waits: `to_server` is a question of the gate's own, and the line is to be given again
            once `StdioGate.answered` is set, or the server has had its time.
    """

    to_server: bytes = b""
    to_client: bytes = b""
    again: bool = False


class StdioGate:
    """
    Gates the calls of one client to one server.

    Safe for two threads, one for each direction.

    Args:
        session: The session in which calls are judged. In shadow mode every line passes as it is.
        gate: Methods that are gated, of "tools/call", "resources/read" and "prompts/get".
        outcome: Says what became of a call whose result is complete and no error, from the value that it
            holds.
        schemas: The schemas of the server's tools, by name. None: the server is asked before the first call.

    Attributes:
        answered: Set while no question of the gate's own is open.
    """

    def __init__(
        self,
        session: Session,
        *,
        gate: Iterable[str] = (CALL,),
        outcome: OutcomeHook | None = None,
        schemas: Mapping[str, Any] | None = None,
    ) -> None:
        self._session = session
        self._outcome = outcome
        self._gated = gated_methods(gate)
        self._enforces = session.mode == "enforce"
        # Contracts can be added and never taken away.
        self._fields, self._fields_of = NamedFields(()), 0
        self._lock = threading.Lock()
        self._listing = Listing(schemas)
        self.answered = self._listing.answered
        self._owed: dict[str, Owed] = {}
        # Ids of cancelled calls: no answer is owed, and one may still come.
        self._spent: dict[str, None] = {}

    def from_client(self, line: bytes) -> Passage:
        """Judge a line from the client."""
        found = read_client_line(line, gated=self._gated)
        if isinstance(found, Noise):
            return Passage(to_server=line)
        if isinstance(found, Unclear):
            return self._refuse_unclear(line, found)
        question = self._question(found)
        if question:
            return Passage(to_server=question, again=True)
        refusals: list[dict[str, Any]] = []
        passed = []
        for message in found:
            refusal = self._admit(message)
            if refusal is None:
                passed.append(message)
            elif "id" in message.body:
                refusals.append({"jsonrpc": "2.0", "id": message.body["id"], **refusal})
        if len(passed) == len(found):
            return Passage(to_server=line)
        to_server = b"[" + b",".join(message.raw for message in passed) + b"]\n" if passed else b""
        answers: Any = refusals if found[0].batched else refusals[0] if refusals else None
        return Passage(to_server=to_server, to_client=line_of(answers) if answers else b"")

    def from_server(self, line: bytes) -> bytes:
        """Settle the calls that a line from the server answers. Returns the line to pass on."""
        if not self._owed and not self._spent and self._listing.is_settled(line):
            return line
        batched = line.lstrip()[:1] == b"["
        try:
            raws = msgspec.json.decode(line, type=list[msgspec.Raw]) if batched else [line.strip()]
            passed = [self._answered(bytes(raw)) for raw in raws]
        except msgspec.MsgspecError:
            # Not a message, so no answer.
            return line
        if all(raw is None for raw in passed):
            return line
        texts = [bytes(raw) if text is None else text for raw, text in zip(raws, passed, strict=True)]
        texts = [text for text in texts if text]
        if not texts:
            return b""
        return (b"[" + b",".join(texts) + b"]\n") if batched else texts[0] + b"\n"

    def close(self) -> None:
        """Settle what is still owed: a side is gone, and nobody will say what came of it."""
        with self._lock:
            owed = list(self._owed.values())
            self._owed.clear()
        self._listing.fail()
        for entry in owed:
            if entry.reservation is not None:
                conclude(entry.reservation, outcome="unknown")

    def give_up_asking(self) -> None:
        """Stop waiting for the server to list its tools. The waiting call is refused; the next asks anew."""
        self._listing.fail()

    def _question(self, messages: list[Message]) -> bytes:
        # What the gate has to ask before it can judge these; empty if nothing.
        for message in messages:
            if message.call is not None and message.method == CALL:
                question = self._listing.question(message.call.tool, message.body.get("params"))
                if question is not None:
                    return line_of(question)
        return b""

    def _admit(self, message: Message) -> dict[str, Any] | None:
        # What the client is told instead of the server's answer; `None` if the message may pass.
        if message.method == "notifications/cancelled":
            self._cancel(message.body.get("params"))
        elif message.expects_answer:
            return self._admit_request(message)
        elif message.call is not None:
            return self._admit_unanswered(message, message.call)
        return None

    def _admit_request(self, message: Message) -> dict[str, Any] | None:
        request_id = message.body["id"]
        key = id_key(request_id)
        entry = Owed(method=message.method or "", id=request_id, modern=_is_modern(message))
        with self._lock:
            used_by = self._owed.get(key)
            contested = message.call is not None or (used_by is not None and used_by.gated)
            clash = key in self._spent or (used_by is not None and contested)
            refused = clash and self._enforces
            if used_by is None and not refused:
                self._owed[key] = entry
        if clash and message.call is not None:
            report_unclear(self._session, message.call.tool, _ID_IN_USE)
        if refused:
            return error_of(INVALID_REQUEST, _ID_IN_USE)
        if message.call is None:
            return None
        entry.gated = True
        refusal = self._judge(entry, message.call)
        if refusal is not None:
            with self._lock:
                self._owed.pop(key, None)
        elif used_by is not None and entry.reservation is not None:
            # In shadow mode only: nothing tells the answers of the two apart.
            conclude(entry.reservation, outcome="unknown")
        return refusal

    def _admit_unanswered(self, message: Message, call: ServerCall) -> dict[str, Any] | None:
        # A call without an id is against the protocol, and a lenient server may run it all the same.
        entry = Owed(method=message.method or "", id=None, gated=True)
        refusal = self._judge(entry, call)
        if entry.reservation is not None:
            conclude(entry.reservation, outcome="unknown")
        return refusal

    def _judge(self, entry: Owed, call: ServerCall) -> dict[str, Any] | None:
        try:
            self._check_spelling(call)
            if entry.method == CALL:
                call = replace(call, args=self._listing.read(call.tool, call.args))
        except OffSchemaError as error:
            told = off_schema(self._session, call, error)
            if self._enforces:
                return entry.answer(*told)
        return self._reserve(entry, call)

    def _check_spelling(self, call: ServerCall) -> None:
        contracts = self._session.contracts
        if len(contracts) != self._fields_of:
            self._fields, self._fields_of = NamedFields(contracts), len(contracts)
        field = self._fields.misspelt(call.args)
        if field is not None:
            raise OffSchemaError(f"a key of the call is another spelling of {field!r:.100}")

    def _reserve(self, entry: Owed, call: ServerCall) -> dict[str, Any] | None:
        try:
            heed(self._session)
            reservation = self._session.reserve(call.tool, call.args, started=True)
        except Exception as error:
            # Fail-closed, unless the session only watches: what cannot be judged does not run.
            log.exception("a call to %r could not be judged", call.tool)
            report_unjudged(self._session, call.tool, call.args, error)
            return error_of(INTERNAL_ERROR, "the call could not be judged") if self._enforces else None
        if reservation.refusal is None:
            entry.reservation = reservation
            return None
        return entry.answer(text_of(reservation.refusal), refused_data(reservation.refusal))

    def _cancel(self, params: object) -> None:
        if not isinstance(params, dict) or "requestId" not in params:
            return
        key = id_key(params["requestId"])
        with self._lock:
            entry = self._owed.get(key)
            if entry is None or not entry.gated:
                return
            del self._owed[key]
            self._spent[key] = None
            while len(self._spent) > _MAX_SPENT:
                del self._spent[next(iter(self._spent))]
        if entry.reservation is not None:
            conclude(entry.reservation, outcome="unknown")

    def _answered(self, raw: bytes) -> bytes | None:
        # The text that takes the answer's place, empty for none at all; `None` if it may pass as it is.
        read = msgspec.json.decode(raw, type=_Response)
        if read.method is not msgspec.UNSET:
            self._listing.heed(bytes(read.method))
            return None
        failed = read.error is not msgspec.UNSET
        said = read.error if failed else read.result
        if read.id is msgspec.UNSET or said is msgspec.UNSET:
            return None
        if self._listing.is_ours(read.id):
            self._listing.take(msgspec.json.decode(said), failed=failed)
            return b""
        key = id_key(read.id)
        with self._lock:
            self._spent.pop(key, None)
            entry = self._owed.pop(key, None)
        if entry is not None and entry.method == "tools/list" and not failed:
            self._listing.note(msgspec.json.decode(said))
        if entry is None or entry.reservation is None:
            return None
        body = msgspec.json.decode(said)
        if failed:
            code = body.get("code") if isinstance(body, dict) else None
            conclude(entry.reservation, outcome="aborted" if is_waiting_error(code) else "failed")
            return None
        answer = ServerReading(entry.method, self._outcome).of_result(body)
        violation = conclude(entry.reservation, answer.value, outcome=answer.outcome)
        if violation is None:
            return None
        told = {"jsonrpc": "2.0", "id": entry.id, **entry.answer(*withheld_data(violation))}
        return line_of(told).rstrip()

    def _refuse_unclear(self, line: bytes, unclear: Unclear) -> Passage:
        log.warning(
            "a line from the client was %s: %s", "refused" if self._enforces else "unclear", unclear.reason
        )
        report_unclear(self._session, None, unclear.reason)
        if not self._enforces:
            return Passage(to_server=line)
        code = PARSE_ERROR if unclear.id is None else INVALID_REQUEST
        told = {"jsonrpc": "2.0", "id": unclear.id, **error_of(code, f"message refused, {unclear.reason}")}
        return Passage(to_client=line_of(told))


def _is_modern(message: Message) -> bool:
    params = message.body.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and _PROTOCOL_VERSION_KEY in meta
