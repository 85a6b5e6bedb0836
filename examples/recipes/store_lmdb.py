"""An LMDB store that is written all the time, in a vault: LMDB makes a copy of itself before each backup.

On the command line: ``colony-memory backup --before 'python3 -I /opt/store_lmdb.py store copy' memory``
"""

import shlex
import shutil
import sys
import tempfile
import threading
from pathlib import Path

import lmdb

from colony_memory import ColonyMemory, open_vault, restore_folder, save_folder


def copy(store: Path, to: Path) -> None:
    """Copy what is committed, whoever writes meanwhile, and let nobody see a half of it."""
    new = to.with_name(f"{to.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    with lmdb.open(str(store), readonly=True) as environment:
        environment.copy(str(new), compact=True)
    shutil.rmtree(to, ignore_errors=True)
    new.rename(to)


def prove() -> None:
    """Save a store three times under a writer that never rests, and open each copy."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "memory")
        folder.mkdir()
        (folder / ".cmemignore").write_text("/store/\n")  # the copy is saved
        environment, done = lmdb.open(str(folder / "store"), map_size=1 << 26), threading.Event()

        def write() -> None:
            number = 0
            while not done.is_set():
                number += 1
                with environment.begin(write=True) as transaction:
                    for name in (b"index", b"texts"):
                        transaction.put(name, str(number).encode())

        writer = threading.Thread(target=write)
        writer.start()
        mem = ColonyMemory(backend=open_vault("memory:"))
        before = shlex.join([sys.executable, __file__, "store", "copy"])
        seen = []
        try:
            for number in range(3):
                assert save_folder(mem, folder, before=before)
                restore_folder(mem, Path(scratch, str(number)))
                with lmdb.open(str(Path(scratch, str(number), "copy"))) as restored, restored.begin() as transaction:
                    assert transaction.get(b"index") == transaction.get(b"texts")
                    seen.append(int(transaction.get(b"texts")))
        finally:
            done.set()
            writer.join()
        assert seen == sorted(set(seen))
        print(f"{len(seen)} copies, each whole")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        copy(Path(sys.argv[1]), Path(sys.argv[2]))
    else:
        prove()
