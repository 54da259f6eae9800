"""What a session remembers of its calls, and the comparisons over it that decide."""
