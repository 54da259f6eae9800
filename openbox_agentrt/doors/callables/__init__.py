"""The door for plain functions."""

from .guarded import guard

__all__ = ("guard",)
