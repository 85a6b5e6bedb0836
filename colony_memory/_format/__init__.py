"""Pure: what is in a vault's files."""
