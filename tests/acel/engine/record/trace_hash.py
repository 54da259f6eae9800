"""The hash of a trace, as the docs of `Violation` describe it and written without the engine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from openbox_agentrt._plain.freezing import freeze


def hash_of(rows: Iterable[Mapping[str, Any]]) -> str:
    """Hash one line of JSON for each row."""
    whole = hashlib.sha256()
    for row in rows:
        line = [row[name] for name in ("step", "tool", "args", "result")]
        text = json.dumps(line, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_contents)
        whole.update(text.replace("NaN", "null").encode() + b"\n")
    return whole.hexdigest()


def _contents(value: Any) -> Any:
    return sorted(value) if isinstance(value, set) else freeze(value)
