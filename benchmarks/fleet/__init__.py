"""The fleet's stores: how long a step takes, what they carry, what they keep under attack."""
