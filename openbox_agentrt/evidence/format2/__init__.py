"""Format 2: a log that only grows, with a signed head."""
