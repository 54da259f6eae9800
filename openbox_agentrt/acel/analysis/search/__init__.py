"""The search of every state that sessions can reach, made with the engine itself."""
