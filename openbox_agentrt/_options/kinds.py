"""The kinds of values that options hold: how text of the environment is read, and how a value is checked."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from urllib.parse import urlsplit

from .._loopback import LOOPBACK_HOSTS
from .._webhook import WebhookError, check_url

TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
FALSE_WORDS = frozenset({"0", "false", "no", "off"})
NO_LIMIT_WORDS = frozenset({"none", "unbounded"})

_API_KEY = re.compile(r"obx_(?:live|test)_[A-Za-z0-9_]+")


class Unfit(ValueError):
    """Refuse a value that an option cannot hold; the message completes "option 'x' ..."."""

    def __init__(self, problem: str, *, nearest: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.nearest = nearest


class InsecureURL(Unfit):
    """Refuse a URL that would send the key in the clear."""


class MalformedKey(Unfit):
    """Refuse an API key without the form of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """
    Read and check the values of one kind of option.

    Attributes:
        check: Gives the value to store, or raises `Unfit`.
        read: Turns text of the environment into a value for `check`; None when the option holds objects.
    """

    check: Callable[[object], object]
    read: Callable[[str], object] | None = None


def nearest(word: str, known: Collection[str], *, cutoff: float = 0.6) -> str | None:
    """Find the known word that `word` was probably meant to be, at least so similar to it."""
    return next(iter(get_close_matches(word, known, n=1, cutoff=cutoff)), None)


def _as_written(text: str) -> object:
    return text


def _text(value: object) -> object:
    if not isinstance(value, str):
        raise Unfit(f"must be text, not {type(value).__name__}")
    if not value.strip():
        raise Unfit("must not be blank")
    if value != value.strip() or any(not char.isprintable() for char in value):
        raise Unfit("must not begin or end with blanks or hold control characters")
    return value


def _secret(value: object) -> object:
    if not isinstance(value, str) or not value.strip():
        raise Unfit("must be text and not blank")
    return value


def _api_key(value: object) -> object:
    if not isinstance(value, str) or not _API_KEY.fullmatch(value):
        stray = isinstance(value, str) and value != value.strip()
        why = "begins or ends with blanks or a line break" if stray else "has an unexpected form"
        raise MalformedKey(f"{why}, expected 'obx_live_...' or 'obx_test_...'")
    return value


def _url(value: object) -> object:
    text = str(_text(value))
    try:
        parts = urlsplit(text)
        host, _port = parts.hostname, parts.port
    except ValueError:
        raise Unfit("is not a URL") from None
    if "@" in text:
        raise Unfit("must not hold a user name or password")  # nor is it repeated here
    if parts.query or parts.fragment:
        raise Unfit("must not have a query or a fragment")
    if parts.scheme not in ("http", "https") or not host:
        raise Unfit(f"must be a URL such as 'https://core.openbox.ai', not {text!r}")
    if parts.scheme == "http" and host not in LOOPBACK_HOSTS:
        raise InsecureURL(f"must use https for host {host!r}, plain http is for this machine only")
    return text.rstrip("/")


def _flag(value: object) -> object:
    if not isinstance(value, bool):
        raise Unfit(f"must be True or False, not {value!r}")
    return value


def _read_flag(text: str) -> object:
    word = text.strip().lower()
    if word in TRUE_WORDS:
        return True
    if word in FALSE_WORDS:
        return False
    raise Unfit(f"must be true or false, not {text!r}")


def _seconds(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unfit(f"must be a number of seconds, not {value!r}")
    if not math.isfinite(value) or value <= 0:
        raise Unfit(f"must be a finite number above 0, not {value!r}")
    return float(value)


def _read_number(text: str) -> object:
    try:
        return float(text)
    except ValueError:
        raise Unfit(f"must be a number, not {text!r}") from None


def _whole(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Unfit(f"must be a whole number, not {value!r}")
    if value < 1:
        raise Unfit(f"must be 1 or more, not {value!r}")
    return value


def _read_whole(text: str) -> object:
    if not re.fullmatch(r"[+-]?[0-9]+", text.strip()):
        raise Unfit(f"must be a whole number, not {text!r}")
    return int(text)


def _read_whole_or_none(text: str) -> object:
    return None if text.strip().lower() in NO_LIMIT_WORDS else _read_whole(text)


def _names(value: object) -> object:
    # One name given as text is one name, not its letters.
    items = (value,) if isinstance(value, str) else value
    if not isinstance(items, Collection) or isinstance(items, Mapping | bytes):
        raise Unfit(f"must be a collection of names, not {type(value).__name__}")
    for item in items:
        if not isinstance(item, str) or not item.strip():
            raise Unfit(f"must hold names, not {item!r}")
    return tuple(items)


def _read_names(text: str) -> object:
    return tuple(name for part in text.split(",") if (name := part.strip()))


def _text_by_name(value: object) -> object:
    if not isinstance(value, Mapping):
        raise Unfit(f"must map names to text, not be {type(value).__name__}")
    for name, item in value.items():
        if not isinstance(name, str) or not isinstance(item, str) or not name or not item:
            raise Unfit(f"must map names to text, not {name!r} to {item!r}")
    return dict(value)


def _read_object(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        raise Unfit(f"must be a JSON object, not {text!r}") from None


def _callables_by_name(value: object) -> object:
    if not isinstance(value, Mapping):
        raise Unfit(f"must map names to callables, not be {type(value).__name__}")
    for name, item in value.items():
        if not isinstance(name, str) or not name or not callable(item):
            raise Unfit(f"must map names to callables, not {name!r} to {item!r}")
    return dict(value)


def _callable(value: object) -> object:
    if not callable(value):
        raise Unfit(f"must be callable, not {type(value).__name__}")
    return value


def _hook(value: object) -> object:
    if callable(value):
        return value
    if not isinstance(value, str):
        raise Unfit(f"must be callable or a URL, not {type(value).__name__}")
    try:
        return check_url(value)
    except WebhookError as error:
        raise Unfit(f"must be callable or a URL: {error}") from None


def _core(value: object) -> object:
    if isinstance(value, str):
        is_core = value in ("local", "off")
    else:
        # A class has the method too, and cannot be asked.
        is_core = not isinstance(value, type) and callable(getattr(value, "handle", None))
    if is_core:
        return value
    raise Unfit(f"must be 'local', 'off' or a LocalCore, not {value!r}")


def _anything(value: object) -> object:
    return value


def choice(*words: str) -> Kind:
    """Make the kind of an option that holds one of `words`."""

    def check(value: object) -> object:
        if not isinstance(value, str) or value not in words:
            meant = (
                nearest(value.strip().lower().replace("-", "_"), words) if isinstance(value, str) else None
            )
            listed = " or ".join(repr(word) for word in words)
            raise Unfit(f"must be {listed}, not {value!r}", nearest=meant)
        return value

    return Kind(check=check, read=_as_written)


TEXT = Kind(check=_text, read=_as_written)
SECRET = Kind(check=_secret, read=_as_written)
API_KEY = Kind(check=_api_key, read=_as_written)
URL = Kind(check=_url, read=_as_written)
FLAG = Kind(check=_flag, read=_read_flag)
SECONDS = Kind(check=_seconds, read=_read_number)
WHOLE = Kind(check=_whole, read=_read_whole)
WHOLE_OR_NONE = Kind(check=lambda value: None if value is None else _whole(value), read=_read_whole_or_none)
NAMES = Kind(check=_names, read=_read_names)
TEXT_BY_NAME = Kind(check=_text_by_name, read=_read_object)
CALLABLES_BY_NAME = Kind(check=_callables_by_name)
CALLABLE = Kind(check=_callable)
HOOK = Kind(check=_hook, read=_as_written)
CORE = Kind(check=_core, read=_as_written)
OBJECT = Kind(check=_anything)
PATH_OR_OBJECT = Kind(check=_anything, read=_as_written)
