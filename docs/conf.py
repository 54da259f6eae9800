"""How Sphinx builds these pages: `just docs`."""

from openbox_agentrt import __version__

project = "openbox-agentrt"
release = __version__
html_title = "openbox-agentrt"
html_theme = "furo"
html_extra_path: list[str] = []
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["benchmarks"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]  # pages may begin with a heading of the second level
default_role = "code"  # docstrings write code between single backticks
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True}
nitpicky = False
