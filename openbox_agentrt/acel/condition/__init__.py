"""Conditions over a call and what its session knows, written in the Common Expression Language (CEL)."""
