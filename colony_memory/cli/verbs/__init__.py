"""The verbs: each a function that says how its arguments are given, with a docstring that is its help, and examples.

It gives the exit code, and imports what it works with inside of itself, so that ``--help`` waits for nothing. The
tables in :mod:`colony_memory.cli.app` make a verb known.
"""
