"""Where the tests of other projects come from."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

CACHE = Path(__file__).parents[2] / ".ci" / "cache"

UNREACHABLE = (
    "from versions: none",
    "NewConnectionError",
    "ConnectTimeout",
    "name resolution",
    "Network is unreachable",
)
"""What pip says when it cannot reach an index, as against one that has no such distribution."""


@pytest.fixture(scope="session")
def sdist() -> Callable[[str, str], Path]:
    """Gives the unpacked source distribution of a project's version, which is fetched once."""
    return _unpacked


def _unpacked(project: str, version: str) -> Path:
    folder = CACHE / f"{project.replace('-', '_')}-{version}"
    if folder.is_dir():
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    archive = CACHE / f"{folder.name}.tar.gz"
    if not archive.is_file():
        _download(project, version)
    with tarfile.open(archive) as packed:
        packed.extractall(CACHE, filter="data")
    return folder


def _download(project: str, version: str) -> None:
    wanted = f"{project}=={version}"
    options = ["--no-deps", "--no-binary", ":all:", "--dest", str(CACHE)]
    command = [sys.executable, "-m", "pip", "download", *options, wanted]
    # The tests trust an authority of their own; an index has one that the machine knows.
    environment = {name: value for name, value in os.environ.items() if name != "SSL_CERT_FILE"}
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=200, check=False, env=environment
    )
    if result.returncode == 0:
        return
    if any(sign in result.stderr for sign in UNREACHABLE):
        pytest.skip(f"the package index cannot be reached, and {wanted} is needed as a source distribution")
    pytest.fail(f"pip cannot download {wanted}: {result.stderr[-500:]}")
