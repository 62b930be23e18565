"""`engramq hook` and `engramq hooks`, with the events that Claude Code and Codex document."""
