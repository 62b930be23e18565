"""The configuration files of MCP clients: where they are, what engramq's entry in each is, how they are changed."""
