"""Pure: the snapshot format ``colony-memory/2``, in which a snapshot is a chain of packs.

``zstd`` is the one door to the compressor, ``state`` what a memory is as bytes and what changes from one to the next,
``pack`` one link of a chain as vault files, ``chain`` which packs to write and how they are read, ``manifest`` what a
snapshot says of itself, ``build`` and ``read`` the whole of it.
"""
