"""Commands that hosts call in a session: a backup, or a word to the agent about the state of its memory."""
