"""The door for the hooks of Claude Code."""
