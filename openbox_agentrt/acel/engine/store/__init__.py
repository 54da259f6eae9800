"""The memory of a session: calls are judged, reserved and settled here, and nowhere else it changes."""
