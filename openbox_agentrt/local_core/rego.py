"""Policies in Rego."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any


class RegoPolicy:
    """A Rego file whose rule ``result`` decides."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        raise NotImplementedError

    package: str

    def ask(self, event: dict[str, Any], history: Callable[[], list[dict[str, Any]]]) -> object:
        raise NotImplementedError
