"""Counts of a gate."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(slots=True, eq=False)
class GateCounts:
    """
    Count what a gate has done so far.

    Attributes:
        requests: Attempts that were made, retries included.
        retries: Attempts beyond the first of their event.
        outages: Events for which Core gave no answer in the end.
        fail_open: Events that passed ungoverned.
        fail_closed: Events that were refused because Core could not be asked.
        refused: Events that Core did not take, or that could not be put to it.
        not_understood: Answers that were not understood.
        breaker_skipped: Events for which Core was not asked, because it has not been answering.
        reports_late: Reports that an outage kept from Core, to be told after it.
        reports_lost: Reports that did not reach Core and will not.
    """

    requests: int = 0
    retries: int = 0
    outages: int = 0
    fail_open: int = 0
    fail_closed: int = 0
    refused: int = 0
    not_understood: int = 0
    breaker_skipped: int = 0
    reports_late: int = 0
    reports_lost: int = 0

    def to_dict(self) -> dict[str, int]:
        """The counts by name."""
        return asdict(self)
