"""
Make plain data of any value: one walk through all of them, and amounts, times, spellings and JSON.

It knows no contract, event or log; all of these use it.
"""
