"""Pure: the snapshot format ``colony-memory/2``, in which a snapshot is a chain of packs."""
