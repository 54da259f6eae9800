"""
Ask Core: questions at a gate, and reports of what has happened.

`gate` is the one place that asks, `attempt` and `transport` carry a question, `parsing` reads the answer,
`approvals` waits for a person, and `outbox` and `reports` keep what Core has not taken yet. What an answer
means is not decided here: to a question in `_activity.decide`, to a report in `_run.report_answers`.
"""
