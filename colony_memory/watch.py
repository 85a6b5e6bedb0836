"""Backups now and then every so often until the process is told to stop, for a process that does nothing else.

Inside of an agent, :meth:`ColonyMemory.autobackup` does it on a timer beside the agent's own work.
"""

from __future__ import annotations

from colony_memory._last_run import LastRun, last_run_path, read_last_run

__all__ = ["LastRun", "last_run_path", "read_last_run"]
