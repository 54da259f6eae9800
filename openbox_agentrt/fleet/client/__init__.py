"""The worker's side: what it asks goes to the store in order, from a thread of its own."""
