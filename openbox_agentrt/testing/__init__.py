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
    from .clock import ManualClock as ManualClock
    from .faults import Fault as Fault
    from .faults import answers_that_are_no_answers as answers_that_are_no_answers
    from .faults import contradictions as contradictions
    from .faulty_core import FaultyCore as FaultyCore
    from .faulty_core import SeenRequest as SeenRequest
    from .http_server import Request as Request
    from .openai_server import ModelServerError as ModelServerError
    from .openai_server import OpenAIServer as OpenAIServer
    from .orphan_check import assert_no_orphans as assert_no_orphans
    from .script import Call as Call
    from .script import Reply as Reply
    from .script import ScriptExhaustedError as ScriptExhaustedError
    from .scripted_provider import CompleteOnlyProvider as CompleteOnlyProvider
    from .scripted_provider import ScriptedProvider as ScriptedProvider

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

__all__ = tuple(sorted(_HOME))

__getattr__, __dir__ = lazy_names(globals(), _HOME)
