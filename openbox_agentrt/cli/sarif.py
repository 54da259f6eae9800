"""Findings about rules as SARIF 2.1.0, which code review shows beside the lines of a file."""

from __future__ import annotations

from typing import Any

from .._version import __version__
from ..acel.analysis import Analysis, Finding
from ..acel.analysis.findings import KINDS

__all__ = ("sarif_of",)

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_of(analysis: Analysis, file: str) -> dict[str, Any]:
    """Write what was found in a rules file as a SARIF log."""
    notes = [*(f"undecided: {w}" for w in analysis.undecided)]
    notes += [f"not analysed: {w}" for w in analysis.not_analysed]
    driver = {
        "name": "openbox-agentrt analyse",
        "version": __version__,
        "rules": [{"id": kind} for kind in KINDS],
    }
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "results": [_result(finding, file) for finding in analysis.findings],
                "invocations": [
                    {
                        "executionSuccessful": True,
                        "toolExecutionNotifications": [
                            {"level": "note", "message": {"text": note}} for note in notes
                        ],
                    }
                ],
            }
        ],
    }


def _result(finding: Finding, file: str) -> dict[str, Any]:
    return {
        "ruleId": finding.kind,
        "level": "warning",
        "message": {"text": "\n".join(finding.lines())},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": file.replace("\\", "/")},
                    "region": {"startLine": finding.line or 1},
                }
            }
        ],
    }
