"""Runs that wait for a person: kept until they are gone on with, also by another process."""
