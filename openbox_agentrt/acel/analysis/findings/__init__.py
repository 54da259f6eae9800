"""What is told of rules: one finding after another, each with a trace that a session has confirmed."""
