"""
Keep what Core has redacted in a conversation out of all that follows in it.

Secrets that nobody has to point out, in evidence and logs, are `evidence.redaction`.
"""
