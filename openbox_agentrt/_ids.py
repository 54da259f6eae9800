"""Ids that name something and keep no secret."""

from __future__ import annotations

import os
import random

# Not the generator that programs seed: their runs would have the ids of an earlier process. Nor would a fork
# have its parent's.
_RANDOM = random.Random()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_RANDOM.seed)


def new_id() -> str:
    """A UUID of version 4, as text; not worth the system call that `uuid.uuid4` makes."""
    digits = _RANDOM.getrandbits(128).to_bytes(16, "big").hex()
    # "4" is the version and "a" the variant.
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"
