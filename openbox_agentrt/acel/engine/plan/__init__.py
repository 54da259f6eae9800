"""Plan a call: what the contracts in force say of its tool, compiled once and bound to one session."""
