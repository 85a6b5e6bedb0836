"""Words for a person or a model, alike on the command line and in the MCP server."""
