"""A pytest plugin: whoever imports `acel` gets `openbox_agentrt.acel`."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType


class AcelIsOurs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every module of `acel` in `openbox_agentrt.acel`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "acel" and not fullname.startswith("acel."):
            return None
        return importlib.util.spec_from_loader(fullname, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return importlib.import_module(f"openbox_agentrt.{spec.name}")

    def exec_module(self, module: ModuleType) -> None:
        """It has run already."""


sys.meta_path.insert(0, AcelIsOurs())
