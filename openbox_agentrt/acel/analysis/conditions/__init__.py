"""Conditions of contracts: which parts of them are followed, and with which values."""
