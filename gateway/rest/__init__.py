"""Serve the tools as REST operations under /v1, for programs: the same calls of the same service as over MCP."""
