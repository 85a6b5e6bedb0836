"""Every verb, written once, as ``async def`` over :class:`colony_memory._engine.store.Vault`: one face drives them over
a vault that never suspends, the other awaits them. Both import a verb where it is called.
"""
