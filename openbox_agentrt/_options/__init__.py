"""The declaration of every option, and the kinds of values that they hold. Internal."""
