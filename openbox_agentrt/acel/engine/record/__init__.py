"""Record what happened: the calls that ran, what they broke, evidence and metrics."""
