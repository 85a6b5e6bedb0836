"""Pure: one pack as vault files and back. A pack tells what is below it, so that one digest covers a whole chain."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from colony_memory._format import FORMAT_2
from colony_memory._format.json import load_object
from colony_memory._format.names import is_digest, pack_filename
from colony_memory._format.payload import decode_base64
from colony_memory._values import dataclass
from colony_memory.exceptions import SnapshotCorrupt

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from colony_memory._format.age import Lock

#: Base64 characters in one file of a pack.
PACK_CHARS = 900_000


class Below(NamedTuple):
    """What a pack stands on: the id of the pack below it, and the digest of that one's files."""

    pack_id: str
    sha256: str


@dataclass(frozen=True)
class Pack:
    """One link of a chain.

    Attributes:
        pack_id: Id of the snapshot that it was written for.
        below: What it stands on, None for a base.
        frame: The zstd frame; as long as it is encrypted, age's file over it.
        sizes: Bytes of each of its files.
        sha256: ``sha256:`` and the hex digest of the texts of its files, one behind the other.
    """

    pack_id: str
    below: Below | None
    frame: bytes
    sizes: tuple[int, ...]
    sha256: str

    def file(self, label: str) -> str:
        """The first of its files."""
        return pack_filename(label, self.pack_id, 0)


def write_pack(
    label: str, pack_id: str, frame: bytes, below: Below | None, *, lock: Lock | None = None
) -> tuple[Pack, dict[str, str]]:
    """A pack, and its files in the order in which they are to be written; encrypted where there is a lock."""
    data, size = frame if lock is None else lock.seal(frame), PACK_CHARS // 4 * 3
    count, files, sizes, hasher = -(-len(data) // size), dict[str, str](), list[int](), hashlib.sha256()
    for seq in range(count):
        # One after the other: of a large pack nothing is held but its files.
        spelled = base64.b64encode(data[seq * size : (seq + 1) * size]).decode("ascii")
        text = json.dumps({**_head(pack_id, seq, count, below), "data": spelled})
        files[pack_filename(label, pack_id, seq)] = text
        sizes.append(len(text))
        hasher.update(text.encode("ascii"))
    return Pack(pack_id, below, frame, tuple(sizes), "sha256:" + hasher.hexdigest()), files


def read_pack(
    label: str, pack_id: str, texts: Sequence[str | None], *, sizes: Sequence[int], sha256: str, below: str | None
) -> Pack:
    """Read the files of a pack, given in order, None for one that is not there.

    Args:
        label: The label.
        pack_id: Pack that they have to be of.
        texts: Their texts.
        sizes: Bytes that each of them has to have.
        sha256: Digest that they have to have.
        below: Id of the pack that it has to stand on, None for a base.

    Raises:
        SnapshotCorrupt: They are not the files of that pack; ``file`` names the one.
    """
    encoded = []
    for seq, (text, size) in enumerate(zip(texts, sizes, strict=True)):
        file = pack_filename(label, pack_id, seq)
        if text is None:
            raise SnapshotCorrupt(f"missing pack file: {file}", file=file)
        encoded.append(text.encode("utf-8", "surrogatepass"))
        if len(encoded[-1]) != size:
            msg = f"pack file {file} has {len(encoded[-1])} bytes, not the {size} that the manifest says"
            raise SnapshotCorrupt(msg, file=file)
    file = pack_filename(label, pack_id, 0)
    if _digest(encoded) != sha256:
        msg = f"pack file {file} is damaged, or another file: its digest is not the one that is recorded for it"
        raise SnapshotCorrupt(msg, file=file)
    stands_on: list[Below | None] = []
    try:
        frame = b"".join(decode_base64(_slices(label, pack_id, encoded, below, stands_on)))
    except SnapshotCorrupt:
        raise
    except ValueError as error:
        raise SnapshotCorrupt(f"pack {pack_id} does not decode: {error}", file=file) from error
    return Pack(pack_id, stands_on[0], frame, tuple(sizes), sha256)


def _slices(
    label: str, pack_id: str, encoded: Sequence[bytes], below: str | None, stands_on: list[Below | None]
) -> Iterator[str]:
    """The base64 of each file. The first one tells what the pack stands on, and the others have to say the same."""
    for seq, text in enumerate(encoded):
        file = pack_filename(label, pack_id, seq)
        try:
            raw = load_object(text.decode("utf-8", "surrogatepass"))
        except ValueError as error:
            raise SnapshotCorrupt(f"pack file {file} is damaged: {error}", file=file) from error
        if not stands_on:
            digest = raw.get("below_sha256")
            stands_on.append(None if below is None else Below(below, digest if is_digest(digest) else ""))
        data, expected = raw.get("data"), _head(pack_id, seq, len(encoded), stands_on[0])
        # 0, 0.0 and false are one to Python, and not to a file.
        told = [(raw.get(key), type(raw.get(key))) for key in expected]
        if told != [(value, type(value)) for value in expected.values()] or not isinstance(data, str):
            msg = f"pack file {file} is not file {seq} of that pack, or builds on another pack than the manifest says"
            raise SnapshotCorrupt(msg, file=file)
        yield data


def _head(pack_id: str, seq: int, of: int, below: Below | None) -> dict[str, Any]:
    return {
        "format": FORMAT_2,
        "pack": pack_id,
        "seq": seq,
        "of": of,
        "below": below and below.pack_id,
        "below_sha256": below and below.sha256,
    }


def _digest(texts: Sequence[bytes]) -> str:
    hasher = hashlib.sha256()
    for text in texts:
        hasher.update(text)
    return "sha256:" + hasher.hexdigest()
