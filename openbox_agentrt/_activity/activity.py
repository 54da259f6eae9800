"""
One governed activity: judged at its start, closed exactly once.

From the moment Core is asked, it may have a row for the activity, and every way out has to close that row:
the refusal, the result, the error, the cancellation, the end of the run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from .._run.state import POSITION
from .._wire.error_info import error_info
from ..errors import GovernanceError, GovernanceHaltError, find_governance_error
from .bound import Bound, activity_context
from .held import Held
from .request import ApprovalPending, Case, Ruling
from .row import SUPERSEDED, Row, status_of

if TYPE_CHECKING:
    from openbox_core.contracts.context import ActivityContext
    from openbox_core.contracts.events import EventEnvelope

    from .._run.state import RunState
    from ..decision import Answer
    from ..lifecycle_events import ActivityStatus
    from .request import Waiting

T = TypeVar("T")


class Activity:
    """
    A piece of work of a run that Core sees as one row.

    Attributes:
        run: The run that it belongs to.
        type: What Core calls it.
        case: What was or will be judged.
        content: The input to use, after redaction; the case's own before the activity was judged.
        ran: Whether the guarded work has begun to run.
        refusals: What governance refused inside the work: a nested request, a nested run.
        denied: The refusal of a second judgement, made while the work was being prepared.
        held: What the contracts hold for it.
        waiting: What is kept while a person decides and the run is paused.
    """

    def __init__(self, run: RunState, case: Case, *, activity_type: str, reported: bool) -> None:
        self.run = run
        self.case = case
        self.type = activity_type
        self.content: Any = case.content
        self.ran = False
        self.refusals: list[GovernanceError] = []
        self.denied: GovernanceError | ApprovalPending | None = None
        self.waiting: Waiting | None = None
        self.guards: tuple[Any, ...] = ()
        position = POSITION.get()
        self._enclosing = None if position is None or position.run is not run else position.activity
        self.held = Held(run, hears_of_output=reported)
        self._row = Row(activity_type, reported=reported)
        self._context: ActivityContext | None = None

    @property
    def id(self) -> str:
        """Core's id of the row. A second judgement gets a new one."""
        return self.case.activity_id or ""

    @property
    def closed(self) -> bool:
        return self._row.closed

    async def start(self) -> None:
        """
        Have the activity judged.

        Raises:
            GovernanceError: It may not run. Its row is closed.
            ApprovalPending: A person has to decide. Its row stays open.
        """
        self.run.open_activities[self.id] = self
        try:
            ruling = await self.run.judge.decide(self.run, self.case, asking=self._note_asked)
        except ApprovalPending as pending:
            self.waiting = pending.waiting
            raise
        except BaseException as error:
            # Whatever stopped it, Core may have a row by now.
            self._tell_enclosing(error)
            await self.fail(error)
            raise
        self._accept(ruling)

    async def resume(self) -> None:
        """Go on after a pause; like `start`, but nothing is judged a second time."""
        waiting = self.waiting
        if waiting is None:
            raise RuntimeError("the activity is not waiting for an approval")
        self.denied = None
        self.refusals.clear()
        try:
            ruling = await self.run.judge.resume(self.run, waiting)
        except ApprovalPending:
            raise
        except BaseException as error:
            # The person's "no" ends the row, as a refusal by policy would.
            self.waiting = None
            self.held.accept(waiting.reservation)
            self._tell_enclosing(error)
            await self.fail(error)
            raise
        self.waiting = None
        self._accept(ruling)

    async def restart(self, case: Case) -> None:
        """
        Have `case` judged in the place of what was judged before: a changed input needs a new row.

        The refusal is kept in `denied` as well, since whoever prepares the work may swallow it.
        """
        event = self._close("cancelled", error=SUPERSEDED)
        self._abort(None)
        if event is not None:
            self.run.outbox.post(event)
        self.case = case
        self._row = self._row.anew()
        self._context = None
        try:
            await self.start()
        except (GovernanceError, ApprovalPending) as error:
            self.denied = error
            raise

    async def perform(self, work: Callable[[], Awaitable[T]], *, runs_at_once: bool = True) -> T:
        """
        Run `work` inside the activity. The caller completes it; if `work` fails, it is closed here.

        Args:
            runs_at_once: Whether `work` is the guarded work itself. If not, it sets `ran` when it gets there.

        Raises:
            GovernanceHaltError: The run was halted inside the work, even if the work swallowed that.
        """
        self.begin()
        self.ran = runs_at_once
        value: Any = None  # what a guard leaves that swallows the error of the work
        try:
            with self.bound():
                if self.guards:
                    async with self.guarded():
                        value = await work()
                else:
                    value = await work()
        except BaseException as error:
            # Cancellation included: the row must not stay open.
            await self.check(error)
            raise
        if self.denied is not None or self.refusals:
            await self.check(None)
        result: T = value
        return result

    async def check(self, error: BaseException | None) -> None:
        """
        The work has ended, with `error` or without. If that is a failure, the row is closed.

        Raises:
            GovernanceError: A refusal that counts although the work swallowed it; instead of `error`.
        """
        if isinstance(self.denied, ApprovalPending) and (error is None or isinstance(error, Exception)):
            # A second judgement waits for a person: the row stays open, whatever the work made of it.
            raise self.denied from None
        overruling = self._overruling(error)
        if overruling is not None:
            await self.fail(overruling)
            raise overruling from error
        if error is not None:
            await self.fail(error)

    def begin(self) -> None:
        """The work starts now."""
        self._row.began = perf_counter()
        self.ran = True

    @asynccontextmanager
    async def guarded(self) -> AsyncIterator[None]:
        """The context managers that constraint handlers want around the work."""
        async with AsyncExitStack() as stack:
            for guard in self.guards:
                if isinstance(guard, AbstractAsyncContextManager):
                    await stack.enter_async_context(guard)
                else:
                    stack.enter_context(guard)
            yield

    def bound(self) -> Bound:
        """A context in which the activity is the current one, for nested calls and for nested I/O."""
        return Bound(self)

    def note_refusal(self, error: GovernanceError) -> None:
        """Remember that governance refused something inside the work, should the work not let it through."""
        self.refusals.append(error)

    async def complete(
        self, output: Any, *, result: Any = None, measured: Mapping[str, Any] | None = None
    ) -> Answer | None:
        """
        The work succeeded.

        Args:
            output: What Core is told.
            result: What postconditions see.
            measured: Arguments that were deferred.

        Returns:
            Core's answer to the report, which is never enforced.

        Raises:
            ContractRefusedError: The result breaks a postcondition and must not be used. The row is closed as
                failed.
        """
        try:
            if not self.ran:
                self.held.abort(None)  # a dry run: the work was let through and did not happen
            elif self.held:
                await self.held.commit(self.case, self.content, result, measured)
        except BaseException as error:
            # The result is not to be used, or the commit was interrupted: either way the work failed.
            await self.fail(error)
            raise
        event = self._close("completed", output=output)
        if event is None:
            return None
        return await self.run.outbox.send(
            event, heed=partial(self.run.heed, event=self.case.event), beside=self._beside()
        )

    async def fail(self, error: BaseException) -> None:
        """The work failed, or never ran."""
        event = self._close(status_of(error), error=self._error_info(error))
        self._abort(error)
        if event is None:
            return
        if isinstance(error, Exception):
            await self.run.outbox.send(event, beside=self._beside())
        else:
            # A cancelled task must not wait for Core, and a closed generator cannot.
            self.run.outbox.post(event)

    async def take_over(self) -> None:
        """
        The activity was judged ahead of its turn, which is now.

        Raises:
            ContractRefusedError: Something else came first, and the contracts refuse it by now. The row is
                closed.
        """
        try:
            await self.held.reclaim(self.case)
        except BaseException as error:
            # Refused or cancelled: Core has a row for it.
            self._tell_enclosing(error)
            await self.fail(error)
            raise

    def discard(self, output: Any) -> None:
        """The activity was allowed and is not needed: nothing ran. Does not wait."""
        event = self._close("completed", output=output)
        self._abort(None)
        if event is not None:
            self.run.outbox.post(event)

    def abandon(self, error: Mapping[str, Any]) -> None:
        """Nobody will close the activity any more. Does not wait."""
        if self.waiting is not None and not self._row.closed:
            self.run.judge.forget(self.run, self.waiting)
        event = self._close("failed", error=error)
        self._abort(None)
        if event is not None:
            self.run.outbox.post(event)

    def _beside(self) -> object:
        return (self._enclosing or self.run) if self._row.asked else None

    def _tell_enclosing(self, error: BaseException) -> None:
        """The work that called this may swallow the refusal."""
        if self._enclosing is not None and isinstance(error, GovernanceError):
            self._enclosing.note_refusal(error)

    def _accept(self, ruling: Ruling) -> None:
        self.content = ruling.content
        self.guards = ruling.guards
        self.held.accept(ruling.reservation)

    def _note_asked(self) -> None:
        self._row.asked = True

    def _abort(self, error: BaseException | None) -> None:
        if self.waiting is not None:
            self.held.accept(self.waiting.reservation)
            self.waiting = None
        self.held.abort(error, ran=self.ran)

    def _close(
        self, status: ActivityStatus, *, output: Any = None, error: Mapping[str, Any] | None = None
    ) -> EventEnvelope | None:
        return self._row.close(self.run, self.case, status, ran=self.ran, output=output, error=error)

    def _error_info(self, error: BaseException) -> Mapping[str, Any]:
        return self.run.redactions.value(error_info(error))

    def _overruling(self, error: BaseException | None) -> GovernanceError | None:
        """The refusal that counts although the work returned, or raised something else."""
        if error is not None and not isinstance(error, Exception):
            return None
        if isinstance(self.denied, GovernanceError):
            return None if error is self.denied else self.denied
        for refusal in self.refusals:
            if isinstance(refusal, GovernanceHaltError):
                told = error is not None and isinstance(find_governance_error(error), GovernanceHaltError)
                return None if told else refusal
        return None

    @property
    def context(self) -> ActivityContext:
        """Who I am, for the base SDK's instrumentation."""
        if self._context is None:
            self._context = activity_context(self.run.identity, self.id, self.type)
        return self._context
