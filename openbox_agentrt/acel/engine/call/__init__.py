"""The way of a call through a session: admitted, run, and then committed or aborted."""
