"""Governing every AgentLoop of the process, by the one method that all of their runs go through."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any

from agent_rt import AgentLoop

from ..errors import GovernanceError
from .attributes import governing_judges
from .lending import lent_parts
from .loop import govern_loop, run_governed

if TYPE_CHECKING:
    from .._run.runs import Runs

_lock = threading.Lock()


class Installation:
    """Hold one governance's claim to ``AgentLoop.run``."""

    def __init__(self, judge: Runs) -> None:
        self._judge = judge
        self._patch: Any = None
        self._original: Any = None

    @property
    def active(self) -> bool:
        return self._patch is not None

    def install(self) -> None:
        """
        Replace ``AgentLoop.run`` by a governed one. Installing twice is installing once.

        Raises:
            GovernanceError: Another governance is installed.
        """
        with _lock:
            if self._patch is not None:
                return
            if getattr(AgentLoop.run, "__openbox_installed__", False):
                raise GovernanceError(
                    "another governance is installed in this process",
                    remedy="uninstall() the other one first",
                )
            self._original = AgentLoop.run
            self._patch = self._governed_run(AgentLoop.run)
            AgentLoop.run = self._patch  # type: ignore[method-assign]  # which is the point

    def uninstall(self) -> None:
        """Put the original back. Where somebody patched over ours, it stays and lets everything through."""
        with _lock:
            patch: Any = self._patch
            if patch is None:
                return
            if AgentLoop.run is patch:
                AgentLoop.run = self._original  # type: ignore[method-assign]  # put back
            patch.__openbox_installed__ = False
            self._patch = None

    def _governed_run(self, original: Any) -> Any:
        @functools.wraps(original)
        async def run(loop: Any, *args: Any, **kwargs: Any) -> Any:
            if not patch.__openbox_installed__ or governing_judges(loop):
                return await original(loop, *args, **kwargs)
            clone = govern_loop(loop, self._judge, entry_points=("_run_impl", "compile_plan"))
            # The original method and not the clone's `run`: a subclass that overrides `run` is already
            # inside its own, and would do its part twice.
            with lent_parts(loop, self._judge):
                return await run_governed(
                    clone, self._judge, functools.partial(original, clone), args, kwargs
                )

        patch: Any = run
        patch.__openbox_installed__ = True
        return patch
