"""Read off the rules before a call is tried: what can be analysed, of which tools, what belongs together."""
