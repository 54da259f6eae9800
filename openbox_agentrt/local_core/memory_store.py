"""Keep what a local Core remembers in this process, and forget it with it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import msgspec

from .._halt import Halt, HaltKind
from .approvals import Approval, State
from .halts import Opening
from .records import Answered, Record, RefusedRequest, RunEnd, RunHistory, decoded
from .wire import Event

_FRESH = RunEnd()
_TOGETHER = nullcontext()


class _StoredRun:
    """
    A run and its events.

    Attributes:
        rows: Its rows, repetitions left out.
        first: The place of the first row with each key.
        claims: Until when the events with these keys are being judged.
        totals: How many rows there are, by event type and activity type; up to date after `count_totals`.
    """

    __slots__ = ("claims", "counted", "end", "first", "key", "rows", "totals")

    def __init__(self, key: tuple[str, str]) -> None:
        self.key = key
        self.end = _FRESH
        self.rows: list[_StoredEvent] = []
        self.first: dict[str, int] = {}
        self.claims: dict[str, float] = {}
        self.totals: dict[str, Counter[str]] = {}
        self.counted = 0

    def count_totals(self) -> None:
        """Count the rows that have come since the last time: few policies ask for it."""
        for row in self.rows[self.counted :]:
            move = _MOVES.decode(row.body)
            self.totals.setdefault(move.event_type, Counter())[move.activity_type or ""] += 1
        self.counted = len(self.rows)


class _StoredEvent(msgspec.Struct, frozen=True, gc=False):
    """
    An event that was accepted.

    What its body says is not kept a second time: in a long run, memory that is touched once and kept costs
    more than what is done with it. Nothing in it leads back to it, so the collector need not look at it.
    """

    received_at: float
    run: tuple[str, str]
    same_as: int | None
    changed: bool
    caller: Mapping[str, str]
    body: bytes
    answer: bytes


class _MoveFields(msgspec.Struct):
    """The fields of an event that `moves` looks at."""

    event_type: str
    activity_id: str | None = None
    activity_type: str | None = None
    hook_trigger: bool = False


class MemoryEventStore:
    """
    Keep events in lists, behind the methods of `FileEventStore`.

    Bodies are kept as they came, and decoded when somebody looks at them.
    """

    def __init__(self) -> None:
        self._rows: list[_StoredEvent] = []
        self._runs: dict[tuple[str, str], _StoredRun] = {}
        self._refused: list[RefusedRequest] = []
        self._halts: list[Halt] = []
        self._approvals: dict[str, Approval] = {}

    def start_anew(self) -> None:
        """A forked process has a copy of all of it."""

    def close(self) -> None:
        self._rows, self._runs, self._refused, self._approvals = [], {}, [], {}

    def run_end(self, workflow_id: str, run_id: str) -> RunEnd:
        run = self._runs.get((workflow_id, run_id))
        return _FRESH if run is None else run.end

    def set_run_end(self, workflow_id: str, run_id: str, end: RunEnd) -> None:
        self._run(workflow_id, run_id).end = end

    def first(self, event: Event) -> Answered | None:
        run = self._runs.get((event.workflow_id, event.run_id))
        seq = None if run is None or event.key is None else run.first.get(event.key)
        if seq is None:
            return None
        row = self._rows[seq - 1]
        return Answered(seq, row.body, row.answer)

    def add(
        self,
        event: Event,
        answer: bytes,
        *,
        now: float,
        caller: Mapping[str, str],
        same_as: int | None = None,
        changed: bool = False,
    ) -> None:
        run = self._run(event.workflow_id, event.run_id)
        row = _StoredEvent(now, run.key, same_as, changed, caller, event.body, answer)
        self._rows.append(row)
        if same_as is None:
            run.rows.append(row)
            if event.key is not None:
                run.first.setdefault(event.key, len(self._rows))
        if event.key is not None and run.claims:
            run.claims.pop(event.key, None)

    def history(self, workflow_id: str, run_id: str, *, latest: int) -> RunHistory:
        run = self._runs.get((workflow_id, run_id))
        rows = [] if run is None else run.rows
        shown = rows[-latest:]
        totals: dict[str, Counter[str]] = {}
        if run is not None:
            run.count_totals()
            totals = {kind: Counter(counts) for kind, counts in run.totals.items()}
        return RunHistory(bodies=[row.body for row in shown], missing=len(rows) - len(shown), totals=totals)

    def claim(self, event: Event, *, now: float, until: float) -> bool:
        assert event.key is not None
        claims = self._run(event.workflow_id, event.run_id).claims
        if claims.get(event.key, 0.0) > now:
            return False
        claims[event.key] = until
        return True

    def together(self) -> AbstractContextManager[None]:
        return _TOGETHER

    def records(self, workflow_id: str | None = None) -> list[Record]:
        return [
            Record(
                seq=seq,
                received_at=row.received_at,
                event=decoded(row.body),
                answer=json.loads(row.answer),
                same_as=row.same_as,
                changed=row.changed,
                caller=dict(row.caller),
            )
            for seq, row in enumerate(self._rows, 1)
            if workflow_id is None or row.run[0] == workflow_id
        ]

    def moves(self) -> Iterator[tuple[str, str, str, str, str, bool]]:
        for row in tuple(self._rows):
            move = _MOVES.decode(row.body)
            if not move.hook_trigger or move.event_type == "Handoff":
                retry = row.same_as is not None and not row.changed
                kind, activity = move.event_type, move.activity_id or ""
                yield (*row.run, kind, activity, move.activity_type or "", retry)

    def add_halt(self, halt: Halt) -> None:
        self._halts.append(halt)

    def lift_halt(self, kind: HaltKind, value: str) -> int:
        kept = [halt for halt in self._halts if (halt.kind, halt.value) != (kind, value)]
        lifted, self._halts = len(self._halts) - len(kept), kept
        return lifted

    def halts(self) -> list[Halt]:
        return list(self._halts)

    def opening(self, workflow_id: str) -> Opening | None:
        found = (run for (workflow, _), run in self._runs.items() if workflow == workflow_id and run.rows)
        run = next(found, None)
        return None if run is None else (run.key[1], decoded(run.rows[0].body))

    def halt_on(self, subjects: Sequence[tuple[HaltKind, str]]) -> Halt | None:
        if not self._halts:
            return None
        return next((halt for halt in self._halts if (halt.kind, halt.value) in subjects), None)

    def refuse(self, request: RefusedRequest) -> None:
        self._refused.append(request)

    def refused(self) -> list[RefusedRequest]:
        return list(self._refused)

    def add_approval(self, approval: Approval) -> None:
        # A copy: the event in it was handed to a policy, and is handed to listeners.
        self._approvals[approval.id] = _copied(approval)

    def approvals(self, **fields: str) -> list[Approval]:
        return [
            _copied(approval)
            for approval in self._approvals.values()
            if all(getattr(approval, name) == value for name, value in fields.items())
        ]

    def decide(self, approval_id: str, state: State, *, note: str, by: str, now: float) -> bool:
        approval = self._approvals.get(approval_id)
        if approval is None or approval.state != "pending":
            return False
        self._approvals[approval_id] = replace(
            approval, state=state, note=note, decided_by=by, decided_at=now
        )
        return True

    def _run(self, workflow_id: str, run_id: str) -> _StoredRun:
        key = workflow_id, run_id
        run = self._runs.get(key)
        if run is None:
            run = self._runs[key] = _StoredRun(key)
        return run


def _copied(approval: Approval) -> Approval:
    return replace(approval, event=json.loads(json.dumps(approval.event)))


_MOVES = msgspec.json.Decoder(_MoveFields)
