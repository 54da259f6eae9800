"""
Dataclasses whose methods are made when they are used.

`dataclasses` writes the methods of a class as text and compiles them when the class is made, and loads what
reads source code to do so. A hook of a coding agent is a process for each tool call: it loads dozens of such
classes, makes a few values, and ends. A quarter of its time went into methods that nobody called.

Here a class is made with its fields, and a few values of it are filled by a loop. Whatever else is asked of
it - its text, whether two are equal, its fields, a call that does not fit, more than a few values - has
`dataclasses` make the methods first, once, and from there on the class is what that makes.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from dataclasses import dataclass, field
    from typing import Any
else:

    def dataclass(*, frozen=False, slots=False, kw_only=False):
        """Make a class a dataclass, as `dataclasses.dataclass` does. Its bases may be none."""
        return lambda cls: _made_late(cls, frozen=frozen, slots=slots, kw_only=kw_only)

    def field(**options):
        """Describe a field, as `dataclasses.field` does."""
        return _Described(options)


__all__ = ("dataclass", "field")

_FEW = 50
"""How many values are filled by a loop. From there on it is cheaper to have the methods ..."""
_FEW_WITHOUT = 2_000
"""... if what makes them is loaded already. Loading it costs as much as filling thousands."""

_METHODS = ("__init__", "__repr__", "__eq__")
_OF_FROZEN = ("__hash__", "__setattr__", "__delattr__")
_OF_FROZEN_SLOTS = ("__getstate__", "__setstate__")
_ATTRIBUTES = ("__dataclass_fields__", "__dataclass_params__")


class _Described:
    """Keeps what a field was described with, until `dataclasses` is there."""

    __slots__ = ("options",)

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = options


class _MadeOnDemand:
    """Makes the methods of a class when one of its attributes is read."""

    __slots__ = ("_name", "_type")

    def __init__(self, made: _Made, name: str) -> None:
        self._type = made
        self._name = name

    def __get__(self, value: object, owner: type) -> Any:
        self._type.make()
        return getattr(owner, self._name)


class _Made:
    """
    A class, and what its methods are made from.

    Making them twice, as two threads may, gives the same methods twice.
    """

    __slots__ = ("_body", "_count", "_fields", "_options", "_positional", "cls")

    def __init__(self, cls: type, options: Mapping[str, Any]) -> None:
        self._options = options
        self._body = {
            name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")
        }
        self._fields = {
            name: _options_of(name, self._body)
            for name, kind in cls.__annotations__.items()
            if not kind.startswith("ClassVar")
        }
        self._positional = tuple(
            name
            for name, told in self._fields.items()
            if told.get("init", True) and not told.get("kw_only", options["kw_only"])
        )
        self._count = 0
        self.cls = self._without_methods(cls)

    def _without_methods(self, cls: type) -> type:
        if self._options["slots"]:
            body = {name: value for name, value in self._body.items() if name not in self._fields}
            cls = _named_as(cls, {**body, "__slots__": tuple(self._fields)})
        else:
            for name, told in self._fields.items():
                if "default" in told:
                    setattr(cls, name, told["default"])
                elif name in vars(cls):
                    delattr(cls, name)
        return cls

    def prepare(self) -> type:
        """Give the class what stands in for its methods."""
        frozen = self._options["frozen"]
        late = _METHODS + (_OF_FROZEN if frozen else ())
        if frozen and self._options["slots"]:
            late += _OF_FROZEN_SLOTS
        if sys.version_info >= (3, 13):
            late += ("__replace__",)
        own = {"__init__": self._init(), "__hash__": self._hash()}
        for name in late:
            if name not in self._body:
                setattr(self.cls, name, own.get(name) or self._late(name))
        if not frozen and "__hash__" not in self._body:
            self.cls.__hash__ = None  # type: ignore[assignment]  # as of any class that says what is equal
        for name in _ATTRIBUTES:
            setattr(self.cls, name, _MadeOnDemand(self, name))
        self.cls.__match_args__ = self._positional  # type: ignore[attr-defined, misc]
        return self.cls

    def make(self) -> None:
        """Have `dataclasses` make the methods."""
        import dataclasses

        body = dict(self._body)
        for name, value in body.items():
            if isinstance(value, _Described):
                body[name] = dataclasses.field(**value.options)
        twin: type = dataclasses.dataclass(**self._options)(_named_as(self.cls, body))
        late = {*_METHODS, *_OF_FROZEN, *_OF_FROZEN_SLOTS, *_ATTRIBUTES, "__replace__"}
        for name, value in vars(twin).items():
            if name in late and name not in self._body:
                setattr(self.cls, name, value)

    def _init(self) -> Callable[..., None]:
        def __init__(self: Any, /, *args: Any, **named: Any) -> None:
            if made.has_few() and made.fill(self, args, named):
                if hasattr(self, "__post_init__"):
                    self.__post_init__()
                return
            made.make()
            made.cls.__init__(self, *args, **named)  # type: ignore[misc]  # which is another one now

        made = self
        return __init__

    def _hash(self) -> Callable[[Any], int]:
        compared = [name for name, told in self._fields.items() if told.get("compare", True)]

        def __hash__(self: Any) -> int:
            return hash(tuple([getattr(self, name) for name in compared]))

        return __hash__

    def _late(self, name: str) -> Callable[..., Any]:
        def method(value: Any, /, *args: Any, **named: Any) -> Any:
            self.make()
            return getattr(self.cls, name)(value, *args, **named)

        return method

    def has_few(self) -> bool:
        """Count a value that is made."""
        self._count += 1
        return self._count <= (_FEW if "dataclasses" in sys.modules else _FEW_WITHOUT)

    def fill(self, value: object, args: tuple[Any, ...], named: Mapping[str, Any]) -> bool:
        """Set the fields of a value; say whether what was given fits. Nothing is set if it does not."""
        given = dict(zip(self._positional, args, strict=False))
        if len(args) > len(self._positional) or given.keys() & named.keys():
            return False
        given.update(named)
        filled = {}
        for name, told in self._fields.items():
            if name in given and told.get("init", True):
                filled[name] = given.pop(name)
            elif "default" in told:
                filled[name] = told["default"]
            elif "default_factory" in told:
                filled[name] = told["default_factory"]()
            elif told.get("init", True):
                return False
        if given:
            return False
        for name, content in filled.items():
            object.__setattr__(value, name, content)
        return True


def _made_late(cls: type, **options: Any) -> type:
    return _Made(cls, options).prepare()


def _named_as(cls: type, body: Mapping[str, Any]) -> type:
    other = type(cls)(cls.__name__, cls.__bases__, dict(body))
    other.__qualname__ = cls.__qualname__
    return other


def _options_of(name: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    if name not in body:
        return {}
    told = body[name]
    return told.options if isinstance(told, _Described) else {"default": told}
