"""One folder's memory as a server of the Model Context Protocol, for the hosts of agents.

It is a face like the command line: it calls what :mod:`colony_memory.app` has and words the answers for a model. What a
person decides is fixed when it starts: the folder, the vault, the label, whom to trust, what is never saved. No tool
takes a path. Text that comes out of a vault is passed on as data and marked as such.
"""

from __future__ import annotations

from colony_memory.exceptions import ColonyMemoryError

__all__ = ["require_mcp"]


def require_mcp() -> None:
    """Go on only with the library of the protocol."""
    try:
        from mcp.server.mcpserver.exceptions import UnexpectedToolError  # noqa: F401 - 2.0 has none
    except ImportError as error:
        raise ColonyMemoryError("the server needs the extra 'mcp': pip install -U 'colony-memory[mcp]'") from error
