"""The version, as a static string: reading package metadata opens files, which instrumentation may govern."""

__version__ = "0.1.0"
