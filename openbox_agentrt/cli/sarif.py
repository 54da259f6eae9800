"""Findings about rules as SARIF 2.1.0, which code review shows beside the lines of a file."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from .._version import __version__
from ..acel.analysis import Analysis, Finding
from ..acel.analysis.findings.finding import KINDS

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
                "columnKind": "unicodeCodePoints",
                "results": [_result(finding, file) for finding in (*analysis.findings, *analysis.accepted)],
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
    # What is accepted was suppressed where it stands, in the words of the format.
    meant = {"kind": "inSource", "status": "accepted", "justification": finding.accepted}
    return {
        "ruleId": finding.kind,
        "ruleIndex": KINDS.index(finding.kind),
        "suppressions": [] if finding.accepted is None else [meant],
        "level": "warning",
        "message": {"text": "\n".join(finding.lines())},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(file)},
                    "region": {"startLine": finding.line or 1},
                }
            }
        ],
    }


def _uri(file: str) -> str:
    """Write the path of a file as a reference: of one that is not absolute, from where the command ran."""
    return PurePath(file).as_uri() if PurePath(file).is_absolute() else quote(file.replace("\\", "/"))
