"""Pure: packs as vault files, and chains of packs: the choice of packs for a new state, and reading them."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from colony_memory._boundary import corrupt
from colony_memory._format import FORMAT_2
from colony_memory._format.json import load_object
from colony_memory._format.names import is_digest, pack_filename
from colony_memory._format.payload import Spend, decode_base64, spend_freely
from colony_memory._format.v2.state import EMPTY, Change, State, apply, change, lead_of, most_line, read_lead
from colony_memory._format.v2.zstd import Prefix, TooLarge, compress, decompress, split_lead, with_lead
from colony_memory._values import Value
from colony_memory.exceptions import Hint, SnapshotCorrupt, bad_argument

if TYPE_CHECKING:
    from colony_memory._format.age import Lock


#: Base64 characters in one file of a pack.
PACK_CHARS = 900_000


class Below(Value):
    pack_id: str
    sha256: str


class Pack(Value):
    pack_id: str  # id of the snapshot that it was written for
    below: Below | None  # the pack that it builds on, None for a base
    frame: bytes  # the zstd frame; while encrypted, the age file around it
    sizes: tuple[int, ...]  # bytes of each of its files
    sha256: str  # sha256: and the hex digest of the texts of its files, concatenated

    def file(self, label: str) -> str:
        return pack_filename(label, self.pack_id, 0)


def write_pack(
    label: str, pack_id: str, frame: bytes, below: Below | None, *, lock: Lock | None = None
) -> tuple[Pack, dict[str, str]]:
    """A pack, and its files in the order in which to write them; encrypted if there is a lock."""
    data, size = frame if lock is None else lock.seal(frame), PACK_CHARS // 4 * 3
    count, files, sizes, hasher = -(-len(data) // size), dict[str, str](), list[int](), hashlib.sha256()
    for seq in range(count):
        # One at a time, so that of a large pack only the files are held.
        spelled = base64.b64encode(data[seq * size : (seq + 1) * size]).decode("ascii")
        text = json.dumps({**_head(pack_id, seq, count, below), "data": spelled}, separators=(",", ":"))
        files[pack_filename(label, pack_id, seq)] = text
        sizes.append(len(text))
        hasher.update(text.encode("ascii"))
    return Pack(pack_id, below, frame, tuple(sizes), "sha256:" + hasher.hexdigest()), files


def read_pack(
    label: str, pack_id: str, texts: Sequence[str | None], *, sizes: Sequence[int], sha256: str, below: str | None
) -> Pack:
    """Read a pack from the texts of its files, in order, None for a missing one."""
    encoded, hasher = list[bytes](), hashlib.sha256()
    for seq, (text, size) in enumerate(zip(texts, sizes, strict=True)):
        file = pack_filename(label, pack_id, seq)
        if text is None:
            raise SnapshotCorrupt(f"missing pack file: {file}", file=file)
        encoded.append(text.encode("utf-8", "surrogatepass"))
        hasher.update(encoded[-1])
        if len(encoded[-1]) != size:
            msg = f"pack file {file} has {len(encoded[-1])} bytes, not the {size} that the manifest says"
            raise SnapshotCorrupt(msg, file=file)
    file = pack_filename(label, pack_id, 0)
    if "sha256:" + hasher.hexdigest() != sha256:
        msg = f"pack file {file} is damaged, or another file: its digest is not the one that is recorded for it"
        raise SnapshotCorrupt(msg, file=file)
    builds_on: list[Below | None] = []
    with corrupt(f"pack {pack_id} does not decode", file):
        frame = b"".join(decode_base64(_slices(label, pack_id, encoded, below, builds_on)))
    return Pack(pack_id, builds_on[0], frame, tuple(sizes), sha256)


def _slices(
    label: str, pack_id: str, encoded: Sequence[bytes], below: str | None, builds_on: list[Below | None]
) -> Iterator[str]:
    """The base64 of each file. The first one declares the pack below, and the others have to agree."""
    for seq, text in enumerate(encoded):
        file = pack_filename(label, pack_id, seq)
        with corrupt(f"pack file {file} is damaged", file):
            raw = load_object(text.decode("utf-8", "surrogatepass"))
        if not builds_on:
            digest = raw.get("below_sha256")
            builds_on.append(None if below is None else Below(below, digest if is_digest(digest) else ""))
        data, expected = raw.get("data"), _head(pack_id, seq, len(encoded), builds_on[0])
        # 0, 0.0 and false are equal in Python, but not in a file.
        actual = [(raw.get(key), type(raw.get(key))) for key in expected]
        if actual != [(value, type(value)) for value in expected.values()] or not isinstance(data, str):
            msg = f"pack file {file} is not file {seq} of that pack, or builds on another pack than the manifest says"
            raise SnapshotCorrupt(msg, file=file)
        yield data


def _head(pack_id: str, seq: int, count: int, below: Below | None) -> dict[str, Any]:
    return {
        "format": FORMAT_2,
        "pack": pack_id,
        "seq": seq,
        "of": count,
        "below": below and below.pack_id,
        "below_sha256": below and below.sha256,
    }


#: Packs in a chain at which a writer starts to fold where that is cheap, and the most that it makes.
MAX_PACKS, MOST_PACKS = 16, 32
# Bytes worth rewriting in a fold: for each pack as many as it takes in the manifests until the next fold, or this
# fraction of the base, next to which they are small.
_WORTH, _SMALL = 700, 1 / 16
# Most bytes in the packs of a chain: this multiple of a new base's, plus these. Readers load the excess for nothing.
_MOST_READ, _LEAST_READ = 8, 2000
#: Most packs in a chain for a reader: each may inflate to the size of the whole memory.
MAX_READ_PACKS = 64
#: Most snapshots on one base, which are lost together if it rots.
MAX_ON_BASE = 256
# Characters that age may add to a pack which is to fit into one file.
_AGE = 24_000
# Most work of reading a chain, in bytes unpacked and assembled: this multiple of max_bytes, plus these.
_MOST_WORK, _LEAST_WORK = 8, 16 * 2**20
_DOCUMENT_WEIGHT, _LINE_WEIGHT = 256, 32


class Link(Value):
    pack: Pack  # the pack
    level: int  # number of folds that its content went through
    size: int  # bytes of the state that it leads to
    work: int  # cost of reading it, see _work


class Chain(Value):
    links: tuple[Link, ...]  # the packs
    state: State  # the memory
    on_base: int = 0  # snapshots that were made on the base before this one


def most_work(max_bytes: int) -> int:
    return _LEAST_WORK + _MOST_WORK * max_bytes


def extend(
    parent: Chain | None, state: State, *, label: str, pack_id: str, max_bytes: int, lock: Lock | None = None
) -> tuple[Chain, dict[str, str]]:
    """The chain of a new snapshot, and the files of its one new pack."""
    if parent is not None and _keeps_base(parent, state):
        kept, level = _fold(parent, most_work(max_bytes) - _work(2 * len(state), 0, state))
        before = parent.state
        if len(kept) < len(parent.links):
            before, _ = replay([link.pack for link in kept], label=label, max_bytes=max_bytes)
        changed = change(before, state)
        work = _work_of(changed)
        total = _work_above_base(kept) + work
        fits = len(changed.line) <= most_line(max_bytes) and total <= most_work(max_bytes)
        frame = _compress(changed) if fits else b""
        if frame and _pays(frame, parent, state):
            below = Below(kept[-1].pack.pack_id, kept[-1].pack.sha256)
            pack, files = write_pack(label, pack_id, frame, below, lock=lock)
            return Chain((*kept, Link(pack, level, len(state), work)), state, parent.on_base + 1), files
    changed = change(EMPTY, state)
    if len(changed.line) > (most := most_line(max_bytes)):
        msg = f"the names of the documents take {len(changed.line)} bytes, more than the {most} that format 2 takes"
        raise bad_argument(msg, hint=Hint("open", "max_bytes"))
    pack, files = write_pack(label, pack_id, _compress(changed), None, lock=lock)
    return Chain((Link(pack, 0, len(state), _work_of(changed)),), state), files


def _work(size: int, line: int, state: State) -> int:
    """Cost of reading a pack, in bytes: its prefix, its unpacked content, and the Python objects made of that."""
    return size + _DOCUMENT_WEIGHT * len(state.contents) + (_LINE_WEIGHT - 1) * line


def _work_of(changed: Change) -> int:
    against = len(changed.before) if changed.against is None else sum(end - start for start, end in changed.against)
    return _work(against + len(changed) + changed.built, len(changed.line), changed.after)


def _work_above_base(links: Sequence[Link]) -> int:
    return sum(link.work for link in links[1:])


def _compress(changed: Change) -> bytes:
    frame = compress(changed.pieces(), len(changed), Prefix(_run(changed.before, changed.against)))
    return frame if changed.against is None else with_lead(lead_of(changed.against), frame)


def _run(state: State, against: Sequence[tuple[int, int]] | None) -> Iterable[bytes | memoryview]:
    return state.run() if against is None else chain.from_iterable(state.cut(*part) for part in against)


def _as_base(parent: Chain, state: State) -> float:
    base = parent.links[0]
    return len(base.pack.frame) * len(state) / max(1, base.size)


def _keeps_base(parent: Chain, state: State) -> bool:
    """True if the new snapshot keeps the base: a new base is small if little is left of the old content."""
    read = sum(len(link.pack.frame) for link in parent.links)
    return parent.on_base + 1 < MAX_ON_BASE and read <= _MOST_READ * _as_base(parent, state) + _LEAST_READ


def _fold(parent: Chain, room: int) -> tuple[tuple[Link, ...], int]:
    """The packs that remain below the new one, and its level; ``room`` is for their work."""
    links = parent.links
    must_fold = len(links) >= MOST_PACKS or _work_above_base(links) > room
    if len(links) < MAX_PACKS and not must_fold:
        return links, 0
    level, start = links[-1].level, len(links) - 1
    while start > 1 and links[start - 1].level == level:
        start -= 1
    rewritten = sum(len(link.pack.frame) for link in links[start:])
    if not must_fold and rewritten > max(_WORTH * (len(links) - start), _SMALL * len(links[0].pack.frame)):
        return links, 0
    return links[:start], level + 1


def _pays(frame: bytes, parent: Chain, state: State) -> bool:
    """True if a patch is worth writing: one file, and at most half the size of a new base."""
    return len(frame) * 4 <= (PACK_CHARS - _AGE) * 3 and 2 * len(frame) <= _as_base(parent, state)


def replay(
    packs: Sequence[Pack], *, label: str, max_bytes: int, known: Chain | None = None, spend: Spend = spend_freely
) -> tuple[State, list[tuple[int, int]]]:
    """The state that packs lead to, base first, and the size and work of each; continues a ``known`` chain."""
    state, steps = EMPTY, list[tuple[int, int]]()
    if known is not None and [link.pack for link in known.links] == [*packs[: len(known.links)]]:
        state, steps = known.state, [(link.size, link.work) for link in known.links]
    remaining = most_work(max_bytes) - sum(work for _, work in steps[1:])
    for pack in packs[len(steps) :]:
        file = pack_filename(label, pack.pack_id, 0)
        try:
            lead, frame = split_lead(pack.frame)
            prefix = Prefix(_run(state, None if lead is None else read_lead(lead, state)))
            content = decompress(frame, prefix, at_most=max_bytes + most_line(max_bytes))
            state, line, built = apply(state, content, max_bytes=max_bytes)
            work = _work(prefix.size + len(content) + built, line, state)
            del content, prefix
            spend(work)
            remaining -= work if steps else 0
            if remaining < 0:
                raise TooLarge(f"the chain takes more to read than this client spends, {most_work(max_bytes)} bytes")
        except ValueError as error:
            hint = Hint("open", "max_bytes") if isinstance(error, TooLarge) else None
            raise SnapshotCorrupt(f"pack {file} does not unpack: {error}", file=file, hint=hint) from error
        steps.append((len(state), work))
    return state.joined(), steps
