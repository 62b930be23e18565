"""Serve MCP, REST and the page: take calls, ask workers over Redis, and render their replies."""
