"""Pure: the snapshot format ``colony-memory/2``, in which a snapshot is a chain of packs.

``zstd`` is the one door to the compressor, ``delta`` what two contents have in common, ``state`` a memory as bytes and
its changes, ``chain`` packs as vault files and which to write, ``manifest`` a snapshot's own word, ``build`` all of it.
"""
