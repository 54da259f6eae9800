"""The base of errors whose constructors take keyword arguments."""

from __future__ import annotations


class PicklableError(Exception):
    """Keep the attributes of an error through pickling, whatever its constructor looks like."""

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments are lost by the default, and errors cross process
        # boundaries in durable agent loops.
        return _rebuild, (type(self), self.args, dict(self.__dict__))


def _rebuild(cls: type[BaseException], args: tuple[object, ...], state: dict[str, object]) -> BaseException:
    error = cls.__new__(cls, *args)
    error.__dict__.update(state)
    return error
