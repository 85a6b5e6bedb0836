"""One verb on a large memory, in a process that does nothing else: what it takes, in JSON on stdout.

``python limits_worker.py VERB VAULT KIND STATE``: VERB is ``save``, ``restore`` or ``verify``; KIND and STATE say which
memory, see :func:`make`.
"""

import hashlib
import json
import random
import sys
import time
from pathlib import Path

MB = 10**6


def make(kind, state):
    """A memory, the same each time; a later state differs in a few places.

    ``many``: 100,000 documents of about 300 bytes. ``large``: 100 MB of text in 400 documents. ``line``: 40 MB of text
    in one document of one line.
    """
    chance = random.Random(kind)

    def text(size, ending="\n"):
        # Of 100 characters, 33 are new to whoever compresses it, as of prose.
        lines = (chance.randbytes(33).hex() + " and so on, as it is wont to be" for _ in range(size // 97))
        return ending.join(lines)

    if kind == "many":
        made = {f"notes/{n % 1000:03}/{n:06}.md": text(291) for n in range(100_000)}
    elif kind == "large":
        made = {f"logs/{n:03}.md": text(250_000) for n in range(400)}
    else:
        made = {"MEMORY.md": text(40 * MB, " ")}
    names = sorted(made)
    for step in range(state):
        change = random.Random(f"{kind} {step}")
        for name in change.sample(names, min(5, len(names))):
            at = change.randrange(len(made[name]))
            made[name] = f"{made[name][:at]} edited {step} {made[name][at:]}"
        if len(names) > 5:
            made[f"new/{step}.md"] = made.pop(names[step])
    return made


def size_of(documents):
    """Bytes of the text of a memory, names included."""
    return sum(len(name) + len(text) for name, text in documents.items())


def digest(documents):
    found = hashlib.sha256()
    for name in sorted(documents):
        found.update(f"{name}\0{documents[name]}\0".encode())
    return found.hexdigest()


def _resident(*, reset=False):
    """Bytes that were resident at the peak since it was reset; on Linux alone."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    line = next(each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def main(verb, vault, kind, state):
    from colony_memory import ColonyMemory
    from colony_memory._format.v2.build import build  # noqa: F401 - loaded before it is measured
    from colony_memory._format.v2.zstd import is_installed
    from colony_memory.vaults.local import LocalVault

    is_installed()
    made = make(kind, int(state))
    text, expected = size_of(made), digest(made)
    memory = ColonyMemory(backend=LocalVault(vault))
    if verb != "save":
        made = {}
    before, began = _resident(reset=True), time.process_time()
    told = {}
    if verb == "save":
        info = memory.backup(made)
        told = {"stored": info.stored_bytes, "format": info.format, "plain": info.byte_size}
    elif verb == "restore":
        made = memory.restore()
    else:
        told = {"ok": bool(memory.verify(snapshot_id=memory.latest().snapshot_id))}
    took, peak = time.process_time() - began, _resident() - before
    same = verb != "restore" or digest(made) == expected
    print(json.dumps({"text": text, "peak": peak, "cpu": round(took, 1), "same": same, **told}))


if __name__ == "__main__":
    main(*sys.argv[1:])
