"""Format 1: bundles in one JSON document, as acel-core writes and verifies them."""
