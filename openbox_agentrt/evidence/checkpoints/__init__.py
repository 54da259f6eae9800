"""Sign what a log was at some size, for others to keep: checkpoints, proofs, and witnesses of them."""
