"""
A pytest plugin: every ``AgentLoop.run`` of the process happens on a governed copy.

Loaded into the run of another project's tests with ``-p govern_every_run``. The Core is in the process and
allows everything. When the tests are over, what it was told is written to the file that ``GOVERNED_REPORT``
names.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

from openbox_agentrt import OpenBoxAgentRTGovernance, create_openbox_agentrt
from openbox_agentrt.local_core import LocalCore

core = LocalCore()
governance: OpenBoxAgentRTGovernance = asyncio.run(
    create_openbox_agentrt(core=core, environ={}, install_instrumentation=False)
)


def pytest_sessionstart() -> None:
    governance.install()


def pytest_unconfigure() -> None:
    asyncio.run(governance.aclose())
    report = {
        "runs": sum(event["event_type"] == "WorkflowStarted" for event in core.events()),
        "problems": [str(problem) for problem in [*core.orphans(), *core.open_workflows()]],
        "ungoverned": governance.counts["fail_open"],
    }
    Path(os.environ["GOVERNED_REPORT"]).write_text(json.dumps(report), encoding="utf-8")
    core.close()
