"""A gate in front of an MCP server that nobody can change, over standard input and output."""

from .gate import Passage, StdioGate
from .process import run_proxy

__all__ = ("Passage", "StdioGate", "run_proxy")
