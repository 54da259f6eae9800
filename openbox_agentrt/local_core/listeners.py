"""Whoever is told of the calls that wait for a person."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from .._webhook import Webhook
from ..evidence.redaction.redactor import redactor_of
from .approvals import Approval
from .failures import place_of

Listener = Callable[[Approval], object]

logger = logging.getLogger(__name__)


class Listeners:
    """
    Tell of each approval that is asked for.

    Args:
        first: Called with each; or an ``https`` URL, to which it is posted.
        secret: Key of the HMAC-SHA256 with which what is posted is signed.
        redact_fields: Names whose values are marked in what is posted.

    Raises:
        WebhookError: `first` is no URL that can be told.
    """

    def __init__(
        self, first: Listener | str | None, *, secret: str | None = None, redact_fields: Iterable[str] = ()
    ) -> None:
        self._webhook: Webhook | None = None
        self.each: list[Listener] = []
        if isinstance(first, str):
            webhook = self._webhook = Webhook(first, secret=secret)
            redactor = redactor_of(redact_fields)
            self.each.append(lambda approval: webhook.send(approval.message(redactor)))
        elif first is not None:
            self.each.append(first)

    def tell(self, approval: Approval) -> None:
        """Tell everybody who listens. Never raises."""
        for listener in tuple(self.each):
            try:
                listener(approval)
            except Exception as error:  # noqa: BLE001 - foreign code may raise anything
                # The approval is written down, and can be decided without the listener.
                logger.error("a listener failed on an approval: %s", place_of(error))

    @contextmanager
    def told(self, listener: Listener) -> Iterator[None]:
        """Tell one more while the block runs."""
        self.each.append(listener)
        try:
            yield
        finally:
            self.each.remove(listener)

    def close(self) -> None:
        """Post nothing any more."""
        if self._webhook is not None:
            self._webhook.close()
