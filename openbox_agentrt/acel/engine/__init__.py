"""
Plan, judge, reserve, settle and record the calls of one session.

`engine` holds it together. `call` is the way of a call, `plan` what contracts say of its tool, `store` the
one place where memory changes, `fleet` the part that a shared store decides. `durable` and `snapshot` let a
session go on elsewhere, `journal` and `record` are what is written, `rerun` derives decisions again. The
kinds of memory are in `acel.memory`, the templates in `acel.contracts`.
"""
