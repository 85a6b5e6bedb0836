"""Directories and plain files of this machine: the one place that opens, makes, moves, syncs and locks them."""
