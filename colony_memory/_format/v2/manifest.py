"""Pure: the manifest of a snapshot of format 2, every field checked, and the part of it that is sealed.

It has the fields of format 1 that 0.1.1 asks for, and of them ``part_count`` 0 and ``part_files`` empty, so that 0.1.1
finds nothing to delete with it; that client refuses to restore another format than its own.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from colony_memory._format import FORMAT_2, age
from colony_memory._format.json import canonical, load_object
from colony_memory._format.manifest import Manifest, read_lacking, read_note, read_ruined, summarize
from colony_memory._format.names import is_digest, manifest_filename, pack_filename
from colony_memory._format.payload import decode_base64, read_tree
from colony_memory._format.v1 import Fields, is_place
from colony_memory._format.v2.chain import MAX_READ_PACKS
from colony_memory._values import dataclass, replace
from colony_memory.exceptions import DecryptionError, Hint, SnapshotCorrupt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from colony_memory._format.age import Identities, Lock, Recipients
    from colony_memory._format.v2.chain import Pack
    from colony_memory.snapshot import SnapshotInfo


CODEC = "zstd+base64"
#: Of what is encrypted by age.
SEALED_CODEC = "zstd+age+base64"
#: Files that a snapshot may need: whoever reads one asks for all of them at once.
MAX_FILES = 10_000


@dataclass(frozen=True)
class ChainManifest(Manifest):
    """A manifest of format 2; ``part_files`` are all files that it needs, base first, ``blob_chars`` their bytes."""

    pack_bytes: tuple[tuple[int, ...], ...] = ()  # bytes of each file of each pack
    pack_sha256: str = ""  # digest of the last pack
    levels: tuple[int, ...] = ()  # how often what each pack holds was folded
    on_base: int = 0  # snapshots that were made on the base before it
    sealed: str = ""  # base64 of what is told to those alone who hold a key, empty where nothing is encrypted
    passphrase_key: str = ""  # base64 of a key that a passphrase opens, empty where there is none


def check_manifest(
    raw: Mapping[str, Any], sha256: str, *, label: str | None = None, snapshot_id: str | None = None
) -> ChainManifest:
    fields = Fields(raw, label, snapshot_id)
    fields.one_of("format", (FORMAT_2,), "snapshot format")
    fields.one_of("codec", (CODEC, SEALED_CODEC), "codec")
    own_label, own_id = fields.place()
    encrypted = raw["codec"] == SEALED_CODEC
    if encrypted and (raw.get("plaintext_sha256"), fields.count("byte_size"), fields.tree()) != ("", 0, ""):
        raise fields.wrong("it tells what is to be encrypted")
    for key in ("pack_sha256",) if encrypted else ("plaintext_sha256", "pack_sha256"):
        fields.digest(key)
    if fields.count("part_count") or raw.get("part_files") != [] or raw.get("doc_names") != []:
        raise fields.wrong("it has parts or names of format 1")
    packs = fields.items("packs", str)
    if not 1 <= len(packs) <= MAX_READ_PACKS or packs[-1] != own_id or len({*packs}) < len(packs):
        raise fields.wrong(f"packs should be up to {MAX_READ_PACKS} ids, each once, its own the last")
    if not all(is_place(own_label, each) for each in packs):
        raise fields.wrong("packs names what is no id")
    sizes = tuple(fields.counts(each, "pack_bytes") for each in fields.items("pack_bytes", list))
    levels = fields.counts(raw.get("levels"), "levels")
    if not len(sizes) == len(levels) == len(packs) or not all(sizes):
        raise fields.wrong("packs, pack_bytes and levels differ")
    if sum(map(len, sizes)) > MAX_FILES:
        raise fields.wrong(f"it needs more than {MAX_FILES} files")
    fields.text("created_at")
    for key in ("byte_size",) if encrypted else ("byte_size", "doc_count"):
        fields.count(key)
    # Derived, not trusted: a manifest cannot send anyone to files of another label.
    files = tuple(
        pack_filename(own_label, each, seq) for each, of in zip(packs, sizes, strict=True) for seq in range(len(of))
    )
    return ChainManifest(
        info=replace(summarize(raw), note=None) if encrypted else summarize(raw),  # what is sealed alone tells it
        raw=raw,
        sha256=sha256,
        part_files=files,
        blob_chars=sum(map(sum, sizes)),
        packs=packs,
        pack_bytes=sizes,
        pack_sha256=raw["pack_sha256"],
        levels=levels,
        on_base=fields.count("on_base"),
        tree=fields.tree(),
        sealed=fields.text("sealed") if encrypted else "",
        passphrase_key=fields.text("passphrase_key") if encrypted and "passphrase_key" in raw else "",
    )


def raw_manifest(codec: str = CODEC, **facts: Any) -> dict[str, Any]:
    """The JSON object of a manifest, with what is the same in every one."""
    return {
        "format": FORMAT_2,
        **facts,
        "codec": codec,
        "doc_names": [],
        "part_count": 0,
        "part_files": [],
    }


#: What a manifest says in place of what is missing, since that names documents.
LEFT_OUT = "something was left out; what it was is encrypted"
# Their length says little of a note or of how much is missing.
_STEP = 256
# What a JSON reader of any language holds exactly.
_LARGEST = 2**53 - 1


@dataclass(frozen=True)
class Facts:
    byte_size: int  # bytes of the documents as canonical JSON
    doc_count: int  # number of documents
    plaintext_sha256: str  # digest of those bytes
    note: str | None = None  # what its writer had to say of it
    incomplete: tuple[str, ...] = ()  # what its writer had to leave out and why
    recipients: tuple[str, ...] = ()  # whom all packs of the chain are encrypted to, sorted
    tree: str = ""  # digest of the names and their contents, empty where it was not told
    ruined: int = 0  # how many documents of the snapshot before it are ruined in it

    def told_of(self, info: SnapshotInfo) -> SnapshotInfo:
        return replace(
            info,
            byte_size=self.byte_size,
            plaintext_sha256=self.plaintext_sha256,
            note=self.note,
            incomplete=self.incomplete,
            doc_count=self.doc_count,
        )


def seal(facts: Facts, snapshot_id: str, lock: Lock) -> str:
    """The facts as a manifest has them: base64 of an age file."""
    raw = {
        "byte_size": facts.byte_size,
        "doc_count": facts.doc_count,
        "incomplete": list(facts.incomplete),
        "plaintext_sha256": facts.plaintext_sha256,
        "recipients": list(facts.recipients),
        "snapshot_id": snapshot_id,
        "tree": facts.tree or None,
    }
    raw |= {} if facts.note is None else {"note": facts.note}
    raw |= {"ruined": facts.ruined} if facts.ruined else {}
    plain = canonical(raw)
    return base64.b64encode(lock.seal(plain.ljust(-(-len(plain) // _STEP) * _STEP))).decode("ascii")


def unseal(manifest: ChainManifest, identities: Identities | None) -> Facts:
    info = manifest.info
    file = manifest_filename(info.label, info.snapshot_id)
    try:
        sealed = b"".join(decode_base64([manifest.sealed]))
    except ValueError as error:
        raise SnapshotCorrupt(f"what is encrypted in {file} does not decode: {error}", file=file) from error
    raw = _open(manifest, sealed, identities, f"what is encrypted in {file}", file)
    try:
        return _facts(load_object(raw.decode("utf-8")), info.snapshot_id)
    except ValueError as error:
        raise SnapshotCorrupt(f"what is encrypted in {file} is wrong: {error}", file=file) from error


def unseal_packs(manifest: ChainManifest, packs: Sequence[Pack], identities: Identities | None) -> list[Pack]:
    out = []
    for pack in packs:
        file = pack.file(manifest.info.label)
        frame = _open(manifest, pack.frame, identities, f"pack {file}", file)
        out.append(replace(pack, frame=frame))
    return out


def _open(manifest: ChainManifest, sealed: bytes, identities: Identities | None, what: str, file: str) -> bytes:
    if identities is None or not age.is_installed():
        raise locked(manifest, identities)
    try:
        return identities.open(sealed, manifest.passphrase_key)
    except age.NoRoom as error:
        raise DecryptionError(f"{what} was not opened: {error}") from error
    except age.NoFit as error:
        raise locked(manifest, identities) from error
    except ValueError as error:
        raise SnapshotCorrupt(f"{what} does not decrypt: {error}", file=file) from error


def locked(manifest: ChainManifest, identities: Identities | None) -> DecryptionError:
    """The error of who cannot open a snapshot: what is missing."""
    info = manifest.info
    which = f"snapshot {info.snapshot_id} of label {info.label!r} is encrypted"
    wanted = f"{'its passphrase or ' if manifest.passphrase_key else ''}the identity of one of its recipients"
    if not age.is_installed():
        return DecryptionError(
            f"{which}: reading it needs {wanted}, and {age.WANTED}",
            hint=Hint("open", "identities") if identities is None else None,
        )
    if identities is None:
        return DecryptionError(
            f"{which}, and no identity is given: reading it needs {wanted}",
            hint=Hint("open", "identities"),
        )
    return DecryptionError(
        f"{which}, and none of what is given opens it ({identities.told()}): reading it needs {wanted}",
        hint=Hint("open", "identities"),
    )


def lock_of(manifest: ChainManifest, facts: Facts, identities: Identities, recipients: Recipients) -> Lock | None:
    """The lock that a snapshot was made with, None where it is not that of these recipients."""
    try:
        key = identities.key_of(manifest.passphrase_key)
    except ValueError:
        return None
    if manifest.passphrase_key and key is None:
        return None
    lock = recipients.lock_with(key)
    return lock if lock is not None and lock.recipients == facts.recipients else None


def _facts(raw: dict[str, Any], snapshot_id: str) -> Facts:
    counts = [raw.get("byte_size"), raw.get("doc_count")]
    if not all(type(each) is int and 0 <= each <= _LARGEST for each in counts):
        raise ValueError("byte_size and doc_count should be counts")
    if raw.get("snapshot_id") != snapshot_id:
        raise ValueError("it is of another snapshot")
    digest, note = raw.get("plaintext_sha256"), read_note(raw.get("note"))
    if not isinstance(digest, str) or not is_digest(digest):
        raise ValueError("plaintext_sha256 should be 'sha256:' and 64 hex digits")
    if note is None and raw.get("note") is not None:
        raise ValueError("note should be a string")
    lists = [raw.get("incomplete"), raw.get("recipients")]
    if not all(isinstance(each, list) and all(isinstance(text, str) for text in each) for each in lists):
        raise ValueError("incomplete and recipients should be lists of strings")
    missing, recipients = read_lacking(lists[0]), tuple(lists[1])  # type: ignore[arg-type]
    sizes = (raw["byte_size"], raw["doc_count"])
    return Facts(*sizes, digest, note, missing, recipients, read_tree(raw), read_ruined(raw))
