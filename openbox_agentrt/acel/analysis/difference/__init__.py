"""Compare two sets of rules: in words, and by the first call on which both part."""
