"""How the bytes of a question reach Core, and those of its answer come back."""
