"""
Locks and weak references, from where Python has them before anything is loaded.

`threading` and `weakref` give the same objects, and load more than a hook has a use for, which is a process
for each call of a tool.
"""

from _thread import LockType, allocate_lock
from _weakref import ref

__all__ = ("LockType", "allocate_lock", "ref")
