"""Repeated backups: in a block, in the background, from the command line."""
