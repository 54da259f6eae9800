"""
A console for the person on call: what agents ask, who judged it, and the calls that wait for a decision.

It is served by the product itself and reads what is there: the database of a local Core, and evidence as it
grows. It decides through `local_core.LocalCore`. It needs the extra ``console``.
"""

from .server import DEFAULT_PORT, Place, running_console, serve_console
from .sources import Sources

__all__ = ("DEFAULT_PORT", "Place", "Sources", "running_console", "serve_console")
