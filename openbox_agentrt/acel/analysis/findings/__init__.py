"""Tell what was found out about rules: each finding with a trace that a session has confirmed."""
