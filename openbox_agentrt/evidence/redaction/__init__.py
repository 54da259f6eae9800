"""
Recognise secrets in what is recorded, and put markers in their place.

`known_secrets` knows them by their form, `named_values` by the name beside them; `redactor` puts both to
use. What Core has redacted in a conversation is `_run.redaction`.
"""
