"""
``python -m``: evaluate one Rego policy for the process that has started this one.

The first line is the policy, each further one a question; each is answered with one line of JSON. The process
ends with its input. It also ends when its parent is gone, since another process may hold the other end of
the pipe, and when one question takes more processor time than it may.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Any, BinaryIO

import msgspec

from ..._extras import MissingExtraError
from ..policy import PolicyDecision, fault, stricter, understand
from .engine import SESSION_KEY, UNDEFINED, Failure, RegoEngine, ambiguous
from .source import PolicyError, RegoSource

_STACK_BYTES = 512 * 1024 * 1024
"""Regular expressions recurse once for each character: 270 bytes of stack for each."""

_MEMORY_BYTES = 1024 * 1024 * 1024
"""What evaluating may take beyond what the process has when it is ready."""

_CPU_SECONDS = 0.03
_CPU_SECONDS_PER_BYTE = 50e-6
_TIMES_A_SAMPLE = 20
"""
Processor time for a question: so many times what a plain event takes, at least 30 ms, and more for a long
event, but not faster than its length grows.
"""

_COMMON = {"workflow_id": "wf", "run_id": "run", "workflow_type": "Agent"}
_ACTIVITY = {**_COMMON, "activity_id": "a", "activity_type": "llm_call"}
_SAMPLES: tuple[dict[str, Any], ...] = (
    {**_COMMON, "event_type": "WorkflowStarted"},
    {**_COMMON, "event_type": "SignalReceived", "signal_name": "user_prompt", "signal_args": ["hello"]},
    {**_ACTIVITY, "event_type": "ActivityStarted", "activity_input": [{"prompt": "hello"}]},
    {**_ACTIVITY, "event_type": "ActivityCompleted", "activity_output": {"completion": "hello"}},
    {**_COMMON, "event_type": "WorkflowCompleted", "status": "completed"},
)
_NO_SESSION: dict[str, Any] = {"events": [], "missing": 0, "totals": {}}


def main() -> None:
    """Answer until the input ends."""
    parent = os.getppid()
    # Whoever interrupts the parent, in a terminal, does not mean this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    # Whatever native code prints is no answer.
    os.dup2(2, 1)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    threading.stack_size(_STACK_BYTES)
    served = threading.Thread(target=_serve, args=(sys.stdin.buffer, answers))
    served.start()
    served.join()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(0)


def _serve(questions: BinaryIO, answers: BinaryIO) -> None:
    try:
        evaluator, said = _loaded(msgspec.json.decode(questions.readline(), type=RegoSource))
        _limit_memory()
        answers.write(_line(said))
        if evaluator is not None:
            for line in questions:
                _limit_time(evaluator.seconds + _CPU_SECONDS_PER_BYTE * len(line))
                answer = _answer(evaluator, line)
                _limit_time(0)
                answers.write(answer)
    finally:
        # An error that nobody expects is the parent's to notice: it gets no answer.
        os._exit(0)


def _answer(evaluator: _Evaluator, line: bytes) -> bytes:
    try:
        return _line(evaluator.decide(msgspec.json.decode(line)))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, the event was not allowed
        return _line(fault(f"the policy failed ({type(error).__name__})"))


def _loaded(source: RegoSource) -> tuple[_Evaluator | None, object]:
    try:
        evaluator = _Evaluator(source)
        evaluator.try_out()
    except PolicyError as error:
        return None, {"problem": error.problem, "line": error.line}
    except MissingExtraError as error:
        return None, {"missing": error.package}
    return evaluator, {"ready": True}


def _line(said: object) -> bytes:
    return msgspec.json.encode(said) + b"\n"


class _Evaluator:
    """Decide with one policy."""

    def __init__(self, source: RegoSource) -> None:
        self._source = source
        self._engine = RegoEngine(source)
        self.seconds = _CPU_SECONDS

    def try_out(self) -> None:
        """
        Evaluate a plain event of each kind, and see how long that takes.

        Functions that do not exist, recursion and expressions that regopy cannot read show only then.

        Raises:
            PolicyError: One of them failed.
        """
        for sample in _SAMPLES:
            given = {**sample, SESSION_KEY: _NO_SESSION} if self._source.uses_session else sample
            began = time.thread_time()
            value = self._engine.evaluate(given, "escaped")
            self.seconds = max(self.seconds, _TIMES_A_SAMPLE * (time.thread_time() - began))
            if isinstance(value, Failure):
                raise self._source.error(f"fails on {sample['event_type']}: {value.message}")

    def decide(self, question: dict[str, Any]) -> PolicyDecision:
        """
        Decide about one event.

        Where the readings of the input differ, both are judged and the stricter decision counts: a text
        must not get past a rule because of how its line breaks or quotes are written.
        """
        given = question["event"]
        if self._source.uses_session:
            given = {**given, SESSION_KEY: question["session"]}
        decision = self._judge(given, plain=False)
        if not ambiguous(given):
            return decision
        return stricter(decision, self._judge(given, plain=True))

    def _judge(self, given: dict[str, Any], *, plain: bool) -> PolicyDecision:
        value = self._engine.evaluate(given, "plain" if plain else "escaped")
        if isinstance(value, Failure):
            return fault(f"the policy failed: {value.message}")
        if value is UNDEFINED or value is None:
            return fault("the policy says nothing about this event")
        return understand(value)


def _limit_time(seconds: float) -> None:
    """End this process after so much processor time, wherever it is then; 0 takes the limit back."""
    # The system does it: native code would not let a handler of Python's run. Where there is no such timer,
    # the parent's clock alone counts.
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _limit_memory() -> None:
    if sys.platform != "linux":
        return  # elsewhere the limit is not heeded, or what is used already is not known
    import resource

    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[0])
    limit = pages * resource.getpagesize() + _MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    main()
