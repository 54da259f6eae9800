"""Admit or refuse a call, let it run, and then commit, abort or lose it."""
