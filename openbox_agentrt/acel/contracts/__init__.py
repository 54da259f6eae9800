"""
Contracts: rules over calls, written by naming tools.

Every parameter that stands for calls takes a matcher: a name, a pattern over names, or more, see
`openbox_agentrt.acel.match.matchers`. What *allows* another call counts once it has succeeded; what
*limits* or *excludes* counts from the moment a call is let through, so that calls that run side by side
cannot pass a limit together.

=============================================  ===================================================
``must_precede(a, b)``                         every ``b`` comes after some ``a``
``cannot_follow_without(action, needed)``      no ``action`` without an earlier ``needed``
``alternate_precedence(a, b)``                 each ``b`` uses up one ``a``
``chain_precedence(a, b)``                     ``a`` is the call immediately before each ``b``
``init(a)``                                    ``a`` comes before everything else
``at_most_n_times(tool, n)``                   at most ``n`` calls
``at_most_in_flight(tool, n)``                 at most ``n`` calls under way at once
``rate_limit(tool, n, window_seconds)``        at most ``n`` calls in any such window
``at_most_total(tool, field, limit)``          ``field`` of all calls adds up to at most ``limit``
``max_distinct(tool, field, n)``               at most ``n`` different values of an argument
``never(tool)``                                no call of it
``only(tools)``                                no call but these
``never_after(a, b)``                          no ``a`` once there was a ``b``
``mutually_exclusive(a, b)``                   not both
``response(a, b, within=None)``                every ``a`` is followed by a ``b``
``existence(a, n)``                            at least ``n`` calls before the session ends
``required_before_session_end(tool)``          at least one call before the session ends
``came_from(tool, field, sources)``            every value of an argument comes from a source
``keeps_out(tool, field, source)``             no value of a result stands in an argument
``requires_state(tool, key, value)``           only while a state entry has that value
``requires(tool, check)``                      only while a condition holds
=============================================  ===================================================
"""
