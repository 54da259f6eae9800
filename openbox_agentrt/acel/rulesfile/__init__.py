"""
Rules files: contracts written in JSON or YAML.

Everything that is not understood is an error that names the file and the line: a rule that is quietly
dropped guards nothing.
"""

from .document import Document, parse_document, read_document
from .errors import ConfigError
from .oddities import RulesWarning
from .rules import Rules, contract_lines, parse_rules, read_rules, rules_of

__all__ = (
    "ConfigError",
    "Document",
    "Rules",
    "RulesWarning",
    "contract_lines",
    "parse_document",
    "parse_rules",
    "read_document",
    "read_rules",
    "rules_of",
)
