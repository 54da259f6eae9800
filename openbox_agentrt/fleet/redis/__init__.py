"""A server that speaks Redis's protocol as the store of many machines: one script per step, rules as data."""
