"""A session as JSON, to go on in another process, and the calls under way beside it."""
