"""Serve the tools over MCP: messages, listings, schemas, arguments, the guide."""
