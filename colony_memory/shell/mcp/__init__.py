"""One folder's memory as a Model Context Protocol server for the hosts of agents: a face like the command line.

A person's decisions are fixed when it starts. No tool takes a path, and text from a vault is marked as data.
"""

from __future__ import annotations

from colony_memory.exceptions import ColonyMemoryError


def require_mcp() -> None:
    """Raise ColonyMemoryError if the library of the protocol is missing or too old."""
    try:
        from mcp.server.mcpserver.exceptions import UnexpectedToolError  # noqa: F401 - 2.0 has none
    except ImportError as error:
        raise ColonyMemoryError("the server needs the extra 'mcp': pip install -U 'colony-memory[mcp]'") from error
