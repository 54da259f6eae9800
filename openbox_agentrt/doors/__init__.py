"""Other ways in: the same contracts for calls that do not come from an Agent-RT loop."""
