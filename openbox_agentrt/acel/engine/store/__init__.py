"""
Judge, reserve and settle calls in the memory of a session: nowhere else does it change.

The kinds of memory, and the guards over them, are in `acel.memory`.
"""
