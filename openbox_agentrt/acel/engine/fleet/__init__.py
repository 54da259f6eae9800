"""The part of a call's way that leads through the shared store of a fleet."""
