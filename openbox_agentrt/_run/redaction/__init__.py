"""What was redacted in a conversation, and is taken out of all that follows in it."""
