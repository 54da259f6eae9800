"""
Give openbox_core's hooks one owner in this process.

The hooks are global: a second installation silently takes them from the first, and whichever closes first
removes them for both. So there is one owner. A second governance gets no hooks and says so.
"""

from __future__ import annotations

import logging
import threading
import warnings
from typing import TYPE_CHECKING, Final

from ...errors import OptionError

if TYPE_CHECKING:
    from openbox_core.instrumentation.manager import InstrumentationManager
    from openbox_core.runtime import OpenBoxRuntime


log = logging.getLogger(__name__)

_lock = threading.Lock()
EXPECTED_TARGETS: Final = frozenset({"httpx", "requests"})
"""What the extra ``http`` of openbox_core instruments, which this package depends on."""


class InstrumentationWarning(RuntimeWarning):
    """Nested I/O of a governance is not governed, or only in part."""


class HookOwnership:
    """
    One governance's claim to the hooks.

    Args:
        runtime: Runtime that the hooks ask. Its configuration says which hooks there are.
        strict: Raise, instead of warn, when the hooks cannot be had.
    """

    def __init__(self, runtime: OpenBoxRuntime, *, strict: bool) -> None:
        self._runtime = runtime
        self._strict = strict
        self._manager: InstrumentationManager | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        """Libraries that are instrumented: ``httpx``, ``requests``, ``sqlalchemy`` ..."""
        return () if self._manager is None else tuple(self._manager.installed_targets)

    def install(self) -> None:
        """
        Install the hooks, unless the configuration switches them off or the runtime's are installed already.

        Raises:
            OptionError: In strict mode, another governance owns the hooks or some cannot be installed.
        """
        config = self._runtime.config
        if not config.instrumentation.enabled or self._manager is not None:
            return
        from openbox_core.instrumentation import http, shared
        from openbox_core.instrumentation.manager import InstrumentationManager

        with _lock:
            owner = shared.get_hook_runtime()
            if owner is not None:
                if getattr(owner, "_runtime", None) is not self._runtime:
                    self._complain("another governance of this process owns the hooks for nested I/O")
                return
            manager = InstrumentationManager(self._runtime)
            manager.install()
            self._manager = manager
            # openbox_core ignores every URL that begins like Core's address. Its own paths are enough, and
            # a tool that calls something else on that host is governed.
            paths = {f"{config.api_url}/api/v{version}" for version in (1, 2, 3)}
            http.set_ignored_url_prefixes(paths)
        missing = EXPECTED_TARGETS.difference(manager.installed_targets)
        if config.instrumentation.http_enabled and missing:
            try:
                self._complain(
                    f"requests of {', '.join(sorted(missing))} are not governed: no instrumentation"
                )
            except OptionError:
                self.uninstall()
                raise

    def uninstall(self) -> None:
        """Remove the hooks, if they are this governance's. Other claims are left alone."""
        with _lock:
            if self._manager is not None:
                manager, self._manager = self._manager, None
                manager.uninstall()

    def _complain(self, problem: str) -> None:
        if self._strict:
            remedy = "pass install_instrumentation=False to one of them"
            raise OptionError("install_instrumentation", f"cannot be satisfied: {problem}", remedy=remedy)
        log.warning("%s", problem)
        warnings.warn(problem, InstrumentationWarning, stacklevel=4)
