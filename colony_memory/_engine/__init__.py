"""Every verb, written once, as ``async def``: one face drives them over a vault that never suspends, one awaits."""
