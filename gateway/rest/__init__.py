"""REST: the tools as operations under /v1, for programs; the same calls of the same service as over MCP."""
