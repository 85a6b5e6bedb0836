"""Use cases: a vault that is chosen, folders that are saved and restored, snapshots that are picked, a verdict.

Nothing here prints, asks or ends the process: each takes plain arguments and gives a typed result. All of it is
synchronous; from a coroutine, call it as ``await asyncio.to_thread(save_folder, memory, "notes")``.
"""
