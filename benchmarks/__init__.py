"""Measurements of this package, run from a checkout: ``python -m benchmarks``."""
