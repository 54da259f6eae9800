"""What one option may hold, and the configuration that options become."""
