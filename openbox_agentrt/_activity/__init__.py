"""
Judge one activity - a prompt, a model call, a tool call, a user's own work - and see it to its end.

`request` is what is asked, `decide` joins the judges, `approval` is the person among them, `activity` and
`life` are its state, `judged_input` holds what runs against what was judged, and `outputs` says what may be
seen of a result. Where calls come from is `_loop` and `doors`, how Core is asked is `_core`, and the record
of a decision is `_run.record`.
"""
