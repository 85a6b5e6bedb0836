"""Histories of memories as snapshots of format 2, for tests of the pure format."""

import hashlib
import json
import random

import needs_zstd  # noqa: F401 - skips what imports this where there is none

from colony_memory._format.names import manifest_filename
from colony_memory._format.v2.build import ChainManifest, build, read_chain
from colony_memory._format.v2.chain import Below, write_pack
from colony_memory.snapshot import read_manifest

LABEL = "default"


def snapshot_id(n):
    return f"20260101T{n // 3600:02}{n // 60 % 60:02}{n % 60:02}000000Z-{n:06x}"


def build_at(n, documents, parent=None, **facts):
    facts = {"label": LABEL, "created_at": "2026-01-01T00:00:00Z", **facts}
    return build(documents, snapshot_id=snapshot_id(n), parent=parent, **facts)


def build_all(history, **facts):
    """A vault's files, and each snapshot, every one on the one before."""
    files = {}
    built = []
    for n, documents in enumerate(history):
        built.append(build_at(n, documents, built[-1].chain if built else None, **facts))
        assert not files.keys() & built[-1].files.keys()
        files |= built[-1].files
    return files, built


def manifest_at(files, n):
    found = read_manifest(files[manifest_filename(LABEL, snapshot_id(n))], label=LABEL, snapshot_id=snapshot_id(n))
    assert isinstance(found, ChainManifest)
    return found


def read_at(files, n, **bounds):
    manifest = manifest_at(files, n)
    chain = read_chain(manifest, {name: files.get(name) for name in manifest.part_files}, **bounds)
    return chain, chain.state.documents()


def sealed(files, built, **changes):
    """The files with another manifest: what an attacker can write who holds the vault and signs nothing."""
    raw = {**json.loads(files[built.manifest_file]), **changes}
    return {**files, built.manifest_file: json.dumps({key: value for key, value in raw.items() if value is not ...})}


def vault_of(*frames, below=None, **changes):
    """A snapshot whose packs hold these frames, digests and counts all right: what only an attacker makes."""
    files = {}
    packs = []
    for n, frame in enumerate(frames):
        on = Below(packs[-1].pack_id, packs[-1].sha256) if packs else below
        pack, texts = write_pack(LABEL, snapshot_id(n), frame, on)
        packs.append(pack)
        files |= texts
    honest = build_at(len(frames) - 1, {"a": "b"})
    return sealed(
        {**files, honest.manifest_file: honest.files[honest.manifest_file]},
        honest,
        packs=[pack.pack_id for pack in packs],
        pack_bytes=[list(pack.sizes) for pack in packs],
        pack_sha256=packs[-1].sha256,
        levels=[0] * len(packs),
        **changes,
    )


def resealed(files, file, raw, *, n=1):
    """The files with another text for the top pack, and its digest where it belongs."""
    text = raw if isinstance(raw, str) else json.dumps(raw)
    data = text.encode("utf-8", "surrogatepass")
    built = build_at(n, {"a": "b"})
    sizes = json.loads(files[built.manifest_file])["pack_bytes"]
    return sealed(
        {**files, file: text},
        built,
        pack_sha256="sha256:" + hashlib.sha256(data).hexdigest(),
        pack_bytes=[*sizes[:-1], [len(data)]],
    )


def growing(states, *, seed=1):
    """A small memory that is added to, edited, moved and dropped from."""
    chance = random.Random(seed)

    def text(words):
        return " ".join(f"{chance.randrange(10**6):x}" for _ in range(words))

    now = {f"notes/{n}.md": text(60) for n in range(8)} | {"MEMORY.md": text(20), "leer.md": ""}
    out = [dict(now)]
    while len(out) < states:
        name = chance.choice(sorted(now))
        kind = chance.random()
        if kind < 0.6:
            now[name] += "\n" + text(5)
        elif kind < 0.75:
            now[f"notes/{len(out)}-new.md"] = text(30)
        elif kind < 0.9:
            now[f"archive/{len(out)}-{name.rpartition('/')[2]}"] = now.pop(name)
        elif len(now) > 3:
            del now[name]
        out.append(dict(now))
    return out
