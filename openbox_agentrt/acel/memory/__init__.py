"""
Remember the calls of a session: a module for each kind of memory, with the guards over it that decide.

How many calls there were is `tally`, those of a sliding window `window`, of a calendar period `periodic`,
amounts `total`, different values `distinct`, one of each for every key `keyed`. Templates, which combine
them, are in `acel.contracts`.
"""
