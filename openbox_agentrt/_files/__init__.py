"""Files that one process writes while others look on."""
