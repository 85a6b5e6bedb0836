"""The command line: parse, call, print. The verbs are those of :class:`colony_memory.ColonyMemory`."""
