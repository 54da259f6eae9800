"""
Declare every option, and the kinds of values that options hold.

Where their values are read from is `openbox_agentrt.options`; what is made of them, `governance.create`.
"""
