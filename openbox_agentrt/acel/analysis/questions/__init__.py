"""Ask what can happen under rules, of a search and of real sessions: what was searched, and what shows it."""
