"""The way of a call through a session: judge, reserve, settle, record."""
