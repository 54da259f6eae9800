"""
Keep one governed run: who it is, what is open in it, whether something may start, and how it ends.

`state` is the run, `scope` its way and `close` its end; `record` is the one place that makes a decision,
and `report_answers` heeds what Core says to a report. Rules and their sessions are in `contracts`, what was
redacted in `redaction`, runs that wait for a person in `paused`. How a single piece of work is judged is
`_activity`.
"""
