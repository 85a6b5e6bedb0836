"""What people and hosts use: the command line, hooks, the server of the Model Context Protocol, the report."""
