"""The calls that are tried: one of each kind that contracts tell apart."""
