"""Which calls a contract is about, and how values are read out of their arguments."""
