"""One module a verb: ``run`` with how each argument is given, a docstring that is its help, and ``EXAMPLES``.

``run`` gives the exit code. It imports what it works with inside of itself, so that ``--help`` waits for nothing. The
table in :mod:`colony_memory.cli.app` makes a verb known.
"""
