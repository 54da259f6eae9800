"""The hooks of openbox_core for nested I/O: who owns them, what they tell Core, what its answers mean."""
