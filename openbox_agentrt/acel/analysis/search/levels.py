"""Count the age of something by how many of its windows it has passed, and by what is added after that."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ("level_of", "next_window", "past_next")


def next_window(windows: Sequence[float], age: float) -> float | None:
    """Give the first window that an age has not passed."""
    return next((window for window in windows if age <= window), None)


def past_next(windows: Sequence[float], age: float) -> float:
    """Let an age pass its next window, and keep what was added to it since it passed the last one."""
    return _past(windows, age) + age - level_of(windows, age)


def level_of(windows: Sequence[float], age: float) -> float:
    """Give what an age was when it had just passed as many windows: 0 before the first."""
    passed = [window for window in windows if window < age]
    return _past(windows, passed[-1]) if passed else 0.0


def _past(windows: Sequence[float], age: float) -> float:
    """Give an age that is past one more window: between that and the next, or just past the last."""
    left = [window for window in windows if age <= window]
    return (left[0] + left[1]) / 2 if len(left) > 1 else windows[-1] + 1
