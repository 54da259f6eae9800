"""Contracts: rules over calls, written by naming tools, and what they give the engine as plain data."""
