"""
Ask conditions over a call and what its session knows, in the Common Expression Language (CEL).

Facts, which successful calls tell, are here too. Conditions that are Python functions are
`acel.contracts.conditions`.
"""
