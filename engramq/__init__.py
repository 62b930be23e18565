"""Long-term memory for AI agents that a team can run in production."""
