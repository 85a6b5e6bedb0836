"""What agent hosts call at the moments of a session: a backup, or a word to the agent about the state of its memory."""
