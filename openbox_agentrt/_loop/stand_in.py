"""
A stand-in that answers for another object, and differs from it in a few named methods.

Agent-RT decides by `isinstance`, by identity of definitions, and (since Python 3.12) by class-level members
of runtime protocols. A subclass that shares the ``__dict__`` freezes the version counter, a copy loses what
is registered later, and ``__getattr__`` alone fails the protocols. What passes Agent-RT's own tests is
this: a class made for the type of the wrapped object, with its ``__class__``, its special methods, reads
and writes forwarded, and only the governed methods its own.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from .._run.runs import Runs

SPECIAL_METHODS = (
    "__len__",
    "__bool__",
    "__iter__",
    "__next__",
    "__reversed__",
    "__contains__",
    "__getitem__",
    "__setitem__",
    "__delitem__",
    "__call__",
    "__enter__",
    "__exit__",
    "__aenter__",
    "__aexit__",
    "__aiter__",
    "__anext__",
)
"""Methods that Python looks up on the type, so that forwarding attributes does not reach them."""


W = TypeVar("W")
S = TypeVar("S", bound="StandIn[Any]")


class StandIn(Generic[W]):
    """
    Answer for another object in everything but the methods that a subclass defines.

    Methods of the wrapped object's class may run on a stand-in: ``self.__class__`` is their own class
    then, and ``type(self)`` is not.

    Attributes:
        __wrapped__: The object that this one answers for. What is called there is not governed.
        __judge__: Who is asked before it is used.
        __lent__: Whether it stands in for something of a user's for a while only: outside of a run, where
            nothing was asked before either, everything is forwarded.
    """

    __slots__ = ("__judge__", "__lent__", "__weakref__", "__wrapped__")

    __judge__: Runs
    __lent__: bool
    __wrapped__: W

    def __init__(self, wrapped: W, judge: Runs, *, lent: bool = False) -> None:
        object.__setattr__(self, "__wrapped__", wrapped)
        object.__setattr__(self, "__judge__", judge)
        object.__setattr__(self, "__lent__", lent)

    @property  # type: ignore[misc]  # a stand-in claims a type, and cannot be given one
    def __class__(self) -> type[Any]:
        return type(self.__wrapped__)

    def __getattr__(self, name: str) -> Any:
        # Only for what neither this class nor its bases define: settings, clients, private state.
        if name == "__wrapped__":
            raise AttributeError(name)  # half built: nothing to ask, and asking would not end
        return getattr(self.__wrapped__, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__wrapped__, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.__wrapped__, name)

    def __dir__(self) -> list[str]:
        return dir(self.__wrapped__)

    def __repr__(self) -> str:
        return f"<governed {self.__wrapped__!r}>"

    def __copy__(self) -> Self:
        return type(self)(copy.copy(self.__wrapped__), self.__judge__, lent=self.__lent__)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)(copy.deepcopy(self.__wrapped__, memo), self.__judge__, lent=self.__lent__)

    def __reduce_ex__(self, protocol: object) -> Any:
        name = type(self.__wrapped__).__name__
        raise TypeError(f"a governed {name} cannot be pickled: pickle the original and govern the copy")


def is_governed(value: object) -> bool:
    """Tell whether `value` is one of our stand-ins."""
    # The real type, because a stand-in claims the type of what it wraps.
    return issubclass(type(value), StandIn)


def is_judged_by(value: object, judge: Runs) -> bool:
    """Tell whether `judge` is asked before `value` is used, also under the stand-in of another judge."""
    while is_governed(value):
        if object.__getattribute__(value, "__judge__") is judge:
            return True
        value = object.__getattribute__(value, "__wrapped__")
    return False


def unwrap(value: Any) -> Any:
    """Take every stand-in off `value`; anything else is returned as it is."""
    while is_governed(value):
        value = object.__getattribute__(value, "__wrapped__")
    return value


def _forward_method(name: str) -> Callable[..., Any]:
    def method(self: StandIn[Any], *args: Any, **kwargs: Any) -> Any:
        # Through the type, as Python itself would.
        return getattr(type(self.__wrapped__), name)(self.__wrapped__, *args, **kwargs)

    method.__name__ = name
    return method


def forwarded(name: str) -> property:
    """Make a member that reads the wrapped object's attribute."""

    def read(self: StandIn[Any]) -> Any:
        return getattr(self.__wrapped__, name)

    return property(read)


NO_MEMBERS: Mapping[str, Any] = MappingProxyType({})

_TYPES: WeakKeyDictionary[type[Any], dict[object, type[StandIn[Any]]]] = WeakKeyDictionary()


def stand_in(
    base: type[S],
    wrapped: object,
    judge: Runs,
    *,
    members: Mapping[str, Any] = NO_MEMBERS,
    lent: bool = False,
) -> S:
    """
    Make a stand-in for `wrapped`.

    Args:
        base: Defines the governed methods. It must claim none that `wrapped` does not have.
        members: What to have at class level besides, where runtime protocols look for it.
        lent: Forward everything outside of a run.
    """
    return stand_in_class(base, type(wrapped), members)(wrapped, judge, lent=lent)


def stand_in_class(base: type[S], kind: type[Any], members: Mapping[str, Any] = NO_MEMBERS) -> type[S]:
    """Give the class of stand-ins for objects of type `kind`, as `stand_in` makes them."""
    made = _TYPES.get(kind)
    if made is None:
        made = _TYPES.setdefault(kind, {})
    key = (base, frozenset(members))
    cls = made.get(key)
    if cls is None:
        namespace: dict[str, Any] = {"__slots__": (), "__module__": base.__module__}
        for name in SPECIAL_METHODS:
            # Not hasattr: every class is callable, which says nothing about its instances.
            if any(name in vars(parent) for parent in kind.__mro__):
                namespace[name] = _forward_method(name)
        namespace |= members
        cls = made[key] = type(f"Governed{kind.__name__}", (base,), namespace)
    return cast("type[S]", cls)
