"""The journal of a session: every event that moves its memory, in the form in which it is written."""
