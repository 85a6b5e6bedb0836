"""Every verb, written once, as ``async def`` over :class:`colony_memory._engine.store.Vault`.

The synchronous facade drives these over a vault that never suspends; the asynchronous one awaits them. Both import a
verb where it is called: an agent that boots to restore does not wait for the code that prunes.
"""
