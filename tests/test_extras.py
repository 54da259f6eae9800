"""Optional packages."""

import pickle
import sys
from pathlib import Path

import pytest

from openbox_agentrt._extras import MissingExtraError, require


def test_an_installed_module_is_returned() -> None:
    """`require` gives the module itself, not its top package."""
    assert require("json.decoder", extra="local") is sys.modules["json.decoder"]


@pytest.mark.parametrize("module", ["no_such_package_here", "no_such_package_here.part.of_it"])
def test_a_missing_package_names_the_extra(module: str) -> None:
    """The error says which extra to install, and carries it as data."""
    with pytest.raises(MissingExtraError) as caught:
        require(module, extra="local")

    assert str(caught.value) == (
        "no_such_package_here needs the extra 'local': pip install 'openbox-agentrt-sdk-python[local]'"
    )
    assert (caught.value.package, caught.value.extra) == ("no_such_package_here", "local")


def test_a_missing_submodule_names_the_extra() -> None:
    """A package too old to have the module is as good as missing."""
    with pytest.raises(MissingExtraError, match="json needs the extra 'local'"):
        require("json.no_such_module_here", extra="local")


def test_a_package_that_breaks_on_import_raises_its_own_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installed package whose own dependency is missing is not reported as a missing extra."""
    (tmp_path / "broken_package_here.py").write_text("import its_own_missing_dependency\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    with pytest.raises(ModuleNotFoundError, match="its_own_missing_dependency") as caught:
        require("broken_package_here", extra="local")

    assert not isinstance(caught.value, MissingExtraError)


def test_the_error_survives_pickling() -> None:
    """Errors cross process boundaries."""
    error = MissingExtraError(package="mcp", extra="mcp")

    copy = pickle.loads(pickle.dumps(error))

    assert (str(copy), copy.package, copy.extra) == (str(error), "mcp", "mcp")
