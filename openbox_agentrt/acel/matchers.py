"""acel-core's module name. The code is in `openbox_agentrt.acel.match.matchers`."""

from .match.matchers import (
    AnyOf,
    Args,
    ContentMatch,
    FieldPattern,
    Predicate,
    ToolMatcher,
    any_of,
    check_matcher,
    is_glob,
    label,
    matching,
    name_matches,
    not_matching,
)
from .match.patterns import PatternError

__all__ = (
    "AnyOf",
    "Args",
    "ContentMatch",
    "FieldPattern",
    "PatternError",
    "Predicate",
    "ToolMatcher",
    "any_of",
    "check_matcher",
    "is_glob",
    "label",
    "matching",
    "name_matches",
    "not_matching",
)
