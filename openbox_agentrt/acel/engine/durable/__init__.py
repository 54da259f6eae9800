"""A session whose memory is kept in a shared store: piece by piece, as calls change it."""
