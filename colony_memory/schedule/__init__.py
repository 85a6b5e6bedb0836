"""Backups along a time: in a block, in the background, from the command line."""
