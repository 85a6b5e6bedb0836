"""What agent hosts call at the moments of a session: a backup, or a word to the agent about the state of its memory.

``hosts``, ``talk`` and ``settings`` are pure: what each host says and takes, and what its settings become. ``turn`` and
``install`` do it.
"""
