"""What a person or a model is told, worded alike by the command line and the MCP server."""
