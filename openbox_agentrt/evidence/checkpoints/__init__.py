"""What a log was at some size, signed and kept elsewhere: checkpoints, proofs, and witnesses of them."""
