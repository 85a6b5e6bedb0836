"""Use cases: choosing a vault, saving and restoring folders, picking snapshots, judging protection.

Nothing here prints, asks or ends the process: each takes plain arguments and returns a typed result. All of it is
synchronous; from a coroutine, call it as ``await asyncio.to_thread(save_folder, memory, "notes")``.
"""
