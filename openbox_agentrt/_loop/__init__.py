"""Where governance stands inside Agent-RT: loop, provider, registry, executor, stream. Internal."""
