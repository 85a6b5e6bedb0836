"""What forged vault files cost whoever reads them: ``python cost_worker.py MAX VERB,VERB KIND…``, JSON a line.

Each kind is built by one child of this process, and each verb run by another, whose memory is what it takes. Digests,
counts and sizes are right wherever that leads the reader further.
"""

import base64
import gzip
import hashlib
import json
import os
import resource
import sys
import tempfile
import warnings
from pathlib import Path

from colony_memory import ColonyMemory, ColonyMemoryError
from colony_memory._format import FORMAT, FORMAT_2, LATEST_FORMAT
from colony_memory._format.names import latest_filename, manifest_filename, pack_filename, part_filename, pin_filename
from colony_memory._format.rows import count_values
from colony_memory._format.v2.state import most_documents, most_line
from colony_memory._format.v2.zstd import is_installed
from colony_memory.vaults.local import LocalVault

IDS = [f"20260101T{n // 60:02}{n % 60:02}00000000Z-0a1b2c" for n in range(64)]
OWN, LABEL = IDS[-1], "default"
FACTS = {"label": LABEL, "created_at": "2026-01-01T00:00:00Z"}
SHA = "sha256:" + "0" * 64
WIDE = "\U0001f600"

VERBS = {
    "restore": lambda memory: memory.restore(),
    "list": lambda memory: memory.list_snapshots(),
    "verify": lambda memory: memory.verify(),
    "search": lambda memory: memory.search("x"),
    "backup": lambda memory: memory.backup({"a.md": "new"}, prune_keep=2),
    "inspect": lambda memory: memory.inspect(),
}


def sha(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def pointer(own=OWN, **more):
    raw = {
        "format": LATEST_FORMAT, "label": LABEL, "snapshot_id": own, "manifest_file": manifest_filename(LABEL, own),
        "updated_at": FACTS["created_at"], **more,
    }  # fmt: skip
    return {latest_filename(LABEL): json.dumps(raw, ensure_ascii=False)}


def format_1(plain, names, **more):
    blob = base64.b64encode(more.pop("packed", None) or gzip.compress(plain)).decode()
    slices = [blob[at : at + 700_000] for at in range(0, len(blob), 700_000)]
    files = {
        part_filename(LABEL, OWN, seq): json.dumps({"format": FORMAT, "snapshot_id": OWN, "seq": seq, "b64": each})
        for seq, each in enumerate(slices)
    }
    raw = {
        "format": FORMAT, "snapshot_id": OWN, **FACTS, "codec": "gzip+base64", "doc_names": names,
        "plaintext_sha256": sha(plain), "part_count": len(files), "part_files": list(files), "byte_size": len(plain),
        "blob_chars": len(blob), **more,
    }  # fmt: skip
    return files | {manifest_filename(LABEL, OWN): json.dumps(raw)} | pointer()


def frame(content, prefix=b""):
    """As fast as it can be made."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    known = zstd.CompressionParameter
    options = {known.compression_level: 1, known.window_log: 27, known.content_size_flag: 1}
    below = zstd.ZstdDict(prefix, is_raw=True).as_prefix if len(prefix) > 8 else None
    packer = zstd.ZstdCompressor(options=options, zstd_dict=below)
    packer.set_pledged_input_size(len(content))
    return packer.compress(content) + packer.flush()


def format_2(*frames, **more):
    ids = IDS[-len(frames) :]
    files, below, sizes = dict[str, str](), (None, None), []
    for own, each in zip(ids, frames, strict=True):
        head = {"format": FORMAT_2, "pack": own, "seq": 0, "of": 1, "below": below[0], "below_sha256": below[1]}
        text = json.dumps({**head, "data": base64.b64encode(each).decode()})
        files[pack_filename(LABEL, own, 0)] = text
        below = (own, sha(text.encode()))
        sizes.append([len(text)])
    raw = {
        "format": FORMAT_2, "snapshot_id": OWN, **FACTS, "codec": "zstd+base64", "doc_names": [], "part_files": [],
        "part_count": 0, "doc_count": 1, "packs": ids, "pack_bytes": sizes, "pack_sha256": below[1],
        "levels": [0] * len(ids), "on_base": 0, "plaintext_sha256": SHA, "byte_size": 100, **more,
    }  # fmt: skip
    return files | {manifest_filename(LABEL, OWN): json.dumps(raw)} | pointer()


def line(put="", drop="", move=""):
    return f'{{"drop":[{drop}],"move":{{{move}}},"put":{{{put}}}}}\n'.encode()


def catalogue(names, rows):
    raw = {"format": "colony-memory/catalog/1", "names": names, "snapshots": rows}
    plain = json.dumps(raw, ensure_ascii=False, separators=(",", ":")).encode()
    return f"{len(plain)}:{count_values(plain)}:{base64.b64encode(gzip.compress(plain)).decode()}"


def row(own, at=0):
    return [at, own, SHA, None, 1, 10, SHA, False, None, FORMAT, 2, None, False, None]


def many_names(most):
    return [f"{WIDE}{n:x}" for n in range(most_documents(most) - 1)]


def puts(names):
    return ",".join(f'"{name}":0' for name in names)


def in_turn(most):
    """Packs that put all documents anew, each of them."""
    names = sorted(many_names(most)[: most_line(most) // 16])
    content, state = line(puts(names)), "".join(f"{name}\n" for name in names).encode()
    return format_2(frame(content), *[frame(content, state)] * 63)


def same_state(most):
    size = most - 2
    first, state = line(f'"a":{size}') + b"x" * size, b"a\n" + b"x" * size
    return format_2(frame(first), *[frame(line(), state)] * 63)


def anew(most):
    size = most - 2
    content, state = line(f'"a":{size}') + b"x" * size, b"a\n" + b"x" * size
    return format_2(frame(content), *[frame(content, state)] * 63)


def taken_anew(most):
    """Packs of a few bytes that put together all of it anew, each of them."""
    size = most - 2
    taken = b"P*M\x18\0\0\0\0" + frame(line(f'"a":[[2,{size}]]'))
    return format_2(frame(line(f'"a":{size}') + b"x" * size), *[taken] * 63)


def one_file(most):
    """A record with one file of the largest size, which is longer in base64."""
    size, record = most - 64, b'{"files":{}}'
    put = line(f'".colony-memory/folder.json":{len(record)},"a":{size}').replace(b"{", b'{"bytes":["a"],', 1)
    return format_2(frame(put + record + b"x" * size))


def one_text(most):
    """One text of the largest size, with one wide character in every window."""
    size = most - 40
    text = (WIDE + "a" * 20_000) * (size // 20_004)
    return json.dumps({"a": text}, ensure_ascii=False, separators=(",", ":")).encode()


def wide_state(most):
    text = (WIDE + "a" * (most - 100)).encode()
    content = line(f'"a":{len(text)}') + text
    plain = json.dumps({"a": text.decode()}, ensure_ascii=False, separators=(",", ":")).encode()
    return format_2(frame(content), byte_size=len(plain), plaintext_sha256=sha(plain))


def documents_of_1(most):
    names = many_names(most)
    plain = json.dumps(dict.fromkeys(sorted(names), ""), ensure_ascii=False, separators=(",", ":")).encode()
    return format_1(plain, names)


def manifests(**more):
    """A label of snapshots that no pointer lists, with more in each manifest."""
    own = format_1(b'{"a":"b"}', ["a"])
    part, raw = own[part_filename(LABEL, OWN, 0)], json.loads(own[manifest_filename(LABEL, OWN)])
    for each in IDS[:-1]:
        name = part_filename(LABEL, each, 0)
        own[name] = part.replace(OWN, each)
        told = raw | more | {"snapshot_id": each, "part_files": [name]}
        own[manifest_filename(LABEL, each)] = json.dumps(told, ensure_ascii=False, separators=(",", ":"))
    return own


KINDS = {
    # Format 1.
    "1: one wide text": lambda most: format_1(one_text(most), ["a"]),
    "1: many documents": documents_of_1,
    "1: more than it says": lambda most: format_1(b'{"a":"' + b"x" * 8 * most + b'"}', ["a"], byte_size=100),
    "1: larger than it may be": lambda most: format_1(b'{"a":"' + b"x" * 8 * most + b'"}', ["a"]),
    "1: a thousand members": lambda most: format_1(b"", ["a"], packed=gzip.compress(b"") * 5000, byte_size=most),
    "1: lists": lambda most: format_1(b"[" * most, ["a"]),
    "1: escapes": lambda most: format_1(b'{"a":"' + rb"\ud83d\ude00" * (most // 12 - 2) + b'"}', ["a"]),
    "1: names without end": lambda most: format_1(b'{"":""}', [""] * (most // 16)),
    # Format 2.
    "2: one long name": lambda most: format_2(frame(line('"' + "a" * 3 * most + '":1') + b"x")),
    "2: one long wide name": lambda most: format_2(
        frame(line('"' + WIDE + "a" * (most_line(most) - 60) + '":1') + b"x")
    ),
    "2: many names": lambda most: format_2(frame(line(puts(many_names(most))))),
    "2: names that go": lambda most: format_2(frame(line(drop=",".join('"a"' for _ in range(most // 17))))),
    "2: lists": lambda most: format_2(frame(b"[" * (most // 65) + b"\n")),
    "2: one wide text": wide_state,
    "2: more than a state": lambda most: format_2(frame(line(f'"a":{3 * most}') + b"x" * 3 * most)),
    "2: the same state again": same_state,
    "2: all of it anew": anew,
    "2: documents in turn": in_turn,
    "2: all of it taken": taken_anew,
    "2: one file": one_file,
    "2: files without number": lambda most: format_2(frame(line()), pack_bytes=[[1] * 10_000]),
    # What stands beside.
    "pointer: removed": lambda most: pointer(removed=[f"{n:x}" for n in range(115_000)]),
    "pointer: lists": lambda most: {latest_filename(LABEL): '{"a":[' + "[]," * (most // 4) + "[]]}"},
    "pointer: objects": lambda most: {latest_filename(LABEL): '{"a":[' + '{"":0},' * (most // 16) + "{}]}"},
    "pointer: wide": lambda most: pointer(other=WIDE + "a" * (most // 2)),
    "catalogue: one name": lambda most: pointer(catalog=[catalogue([[WIDE + "a" * 16_000_000]], [row(OWN)])]),
    "catalogue: names": lambda most: pointer(catalog=[catalogue([[""] * 480_000], [row(OWN)])]),
    "catalogue: rows": lambda most: pointer(
        catalog=[catalogue([[]], [row(f"20260101T{n:012}Z-0a1b2c") for n in range(30_000, 0, -1)])]
    ),
    "catalogue: not in pages": lambda most: pointer(
        catalog=":".join(catalogue([["n"] * 480_000], [row(OWN)]).split(":")[::2])
    ),
    "catalogue: pages without end": lambda most: pointer(catalog=["9:1:AAAA"] * (most // 32)),
    "pointer: keys": lambda most: pointer(**{f"{n:x}": 0 for n in range(most // 16)}),
    "manifests: wide": lambda most: manifests(other=WIDE + "a" * (most // 16)),
    "manifests: keys": lambda most: manifests(**{f"{n:x}": 0 for n in range(most // 192)}),
    "manifest: names": lambda most: format_1(b'{"a":"b"}', [f"{n:x}" for n in range(most // 16)]),
    "manifest: lists": lambda most: pointer()
    | {manifest_filename(LABEL, OWN): '{"a":[' + "[]," * (most // 4) + "[]]}"},
    "manifest: notes": lambda most: format_1(
        b'{"a":"b"}', ["a"], note="n" * most, incomplete=["n" * 99] * (most // 200)
    ),
    "pin": lambda most: format_1(b'{"a":"b"}', ["a"]) | {pin_filename(LABEL, OWN): '{"until":"' + "n" * most + '"}'},
    "pins": lambda most: format_1(b'{"a":"b"}', ["a"])
    | {pin_filename(LABEL, each): '{"until":[' + "[]," * 9000 + "[]]}" for each in IDS},
}  # fmt: skip


def run(verb, vault, most):
    """One verb: what it said, the bytes that it took beyond what was there before, and its seconds of CPU."""
    memory = ColonyMemory(backend=LocalVault(vault), max_bytes=most)
    Path("/proc/self/clear_refs").write_text("5")
    before, began = _status("VmRSS"), resource.getrusage(resource.RUSAGE_SELF)
    try:
        VERBS[verb](memory)
        said = "done"
    except ColonyMemoryError as error:
        said = type(error).__name__
    except BaseException as error:
        said = f"a bare {type(error).__name__}: {str(error)[:200]}"
    took = resource.getrusage(resource.RUSAGE_SELF)
    cpu = took.ru_utime + took.ru_stime - began.ru_utime - began.ru_stime
    return {"verb": verb, "said": said, "bytes": _status("VmHWM") - before, "cpu": round(cpu, 2)}


def _status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(each for each in lines if each.startswith(f"{name}:")).split()[1]) * 1024


def child(work):
    """Do it in a child, so that nothing of it is left here."""
    sys.stdout.flush()
    number = os.fork()
    if number == 0:
        code = 1
        try:
            work()
            sys.stdout.flush()
            code = 0
        finally:
            os._exit(code)
    if os.waitpid(number, 0)[1]:
        raise SystemExit("a child of it died")


def main(most, verbs, kinds):
    warnings.simplefilter("ignore")
    is_installed()
    with tempfile.TemporaryDirectory() as place:
        for number, kind in enumerate(kinds):
            vault = Path(place) / str(number)

            def build(kind=kind, vault=vault):
                LocalVault(vault, create=True)
                for name, text in KINDS[kind](most).items():
                    (vault / name).write_text(text, "utf-8", "surrogatepass")

            child(build)
            stored = sum(path.stat().st_size for path in vault.iterdir())
            for verb in verbs:
                facts = {"kind": kind, "stored": stored}
                child(
                    lambda verb=verb, facts=facts, vault=vault: print(json.dumps({**facts, **run(verb, vault, most)}))
                )


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2].split(","), sys.argv[3:])
