"""
Doubles and fault injection for tests of governed agents.

`FaultyCore` is a real HTTP server that misbehaves when told to, `OpenAIServer` a real model server with
scripted answers, `ScriptedProvider` a model without a network, `ManualClock` time that a test controls, and
`assert_no_orphans` fails when something was begun and not ended. Nothing here is imported until it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from .clock import ManualClock
    from .faults import Fault, answers_that_are_no_answers, contradictions
    from .faulty_core import FaultyCore, SeenRequest
    from .http_server import Request
    from .openai_server import ModelServerError, OpenAIServer
    from .orphan_check import assert_no_orphans
    from .script import Call, Reply, ScriptExhaustedError
    from .scripted_provider import CompleteOnlyProvider, ScriptedProvider

_HOME = {
    "Call": "script",
    "CompleteOnlyProvider": "scripted_provider",
    "Fault": "faults",
    "FaultyCore": "faulty_core",
    "ManualClock": "clock",
    "ModelServerError": "openai_server",
    "OpenAIServer": "openai_server",
    "Reply": "script",
    "Request": "http_server",
    "ScriptExhaustedError": "script",
    "ScriptedProvider": "scripted_provider",
    "SeenRequest": "faulty_core",
    "answers_that_are_no_answers": "faults",
    "assert_no_orphans": "orphan_check",
    "contradictions": "faults",
}

__all__ = (
    "Call",
    "CompleteOnlyProvider",
    "Fault",
    "FaultyCore",
    "ManualClock",
    "ModelServerError",
    "OpenAIServer",
    "Reply",
    "Request",
    "ScriptExhaustedError",
    "ScriptedProvider",
    "SeenRequest",
    "answers_that_are_no_answers",
    "assert_no_orphans",
    "contradictions",
)

__getattr__, __dir__ = lazy_names(globals(), _HOME)
