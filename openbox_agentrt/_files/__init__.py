"""Write files in one step while others look on, and lock them across processes."""
