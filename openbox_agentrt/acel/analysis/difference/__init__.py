"""What a change of rules changes: in words, and the first call on which both part."""
