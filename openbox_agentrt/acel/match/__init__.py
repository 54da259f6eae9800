"""
Tell which calls a contract is about, and read values out of arguments and results.

What is counted of them is `acel.memory`.
"""
