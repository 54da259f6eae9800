"""The demonstration: a small support agent, governed, with nothing but this machine."""
