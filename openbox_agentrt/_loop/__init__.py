"""The call arrives: governed stand-ins for loop, provider, registry, executor and stream. Internal."""
