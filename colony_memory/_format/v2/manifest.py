"""Pure: the manifest of a snapshot of format 2, every field checked, and the part of it that is sealed."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from colony_memory._boundary import corrupt
from colony_memory._format import age, names
from colony_memory._format.json import canonical, load_object
from colony_memory._format.manifest import Manifest, read_lacking, read_note, read_ruined, summarize
from colony_memory._format.payload import decode_base64
from colony_memory._format.v2.chain import MAX_READ_PACKS
from colony_memory._values import Value, names_of, replace
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
_SIZES = (names.list_of(names.COUNTS[0]), "lists of counts")


class ChainManifest(Manifest):
    """A manifest of format 2; ``part_files`` are all files that it needs, base first, ``blob_chars`` their bytes."""

    pack_bytes: tuple[tuple[int, ...], ...] = ()  # bytes of each file of each pack
    pack_sha256: str = ""  # digest of the last pack
    levels: tuple[int, ...] = ()  # how often what each pack holds was folded
    on_base: int = 0  # snapshots that were made on the base before it
    sealed: str = ""  # base64 of what is told to those alone who hold a key, empty where nothing is encrypted
    passphrase_key: str = ""  # base64 of a key that a passphrase opens, empty where there is none


def check_manifest(raw: Mapping[str, Any], digest_of_file: str) -> ChainManifest:
    """A manifest whose format, codec, label and id have been checked. A ValueError says what is wrong."""
    own_label, own_id, encrypted = raw["label"], raw["snapshot_id"], raw["codec"] == SEALED_CODEC
    size, tree = names.expect(raw, "byte_size", names.COUNT), names.expect(raw, "tree", names.TREE) or ""
    if encrypted and (raw.get("plaintext_sha256"), size, tree) != ("", 0, ""):
        raise ValueError("it tells what is to be encrypted")
    if not encrypted:
        names.expect(raw, "plaintext_sha256", names.DIGEST)
        names.expect(raw, "doc_count", names.COUNT)
    names.expect(raw, "pack_sha256", names.DIGEST)
    if names.expect(raw, "part_count", names.COUNT) or raw.get("part_files") != [] or raw.get("doc_names") != []:
        raise ValueError("it has parts or names of format 1")
    packs = tuple(names.expect(raw, "packs", names.TEXTS))
    if not 1 <= len(packs) <= MAX_READ_PACKS or packs[-1] != own_id or len({*packs}) < len(packs):
        raise ValueError(f"packs should be up to {MAX_READ_PACKS} ids, each once, its own the last")
    if not all(names.is_place(own_label, each) for each in packs):
        raise ValueError("packs names what is no id")
    sizes = tuple(map(tuple, names.expect(raw, "pack_bytes", _SIZES)))
    levels = tuple(names.expect(raw, "levels", names.COUNTS))
    if not len(sizes) == len(levels) == len(packs) or not all(sizes):
        raise ValueError("packs, pack_bytes and levels differ")
    if sum(map(len, sizes)) > MAX_FILES:
        raise ValueError(f"it needs more than {MAX_FILES} files")
    names.expect(raw, "created_at", names.TEXT)
    # Derived, not trusted: a manifest cannot send anyone to files of another label.
    files = tuple(
        names.pack_filename(own_label, each, seq)
        for each, of in zip(packs, sizes, strict=True)
        for seq in range(len(of))
    )
    return ChainManifest(
        info=replace(summarize(raw), note=None) if encrypted else summarize(raw),  # what is sealed alone tells it
        raw=raw,
        sha256=digest_of_file,
        part_files=files,
        blob_chars=sum(map(sum, sizes)),
        packs=packs,
        pack_bytes=sizes,
        pack_sha256=raw["pack_sha256"],
        levels=levels,
        on_base=names.expect(raw, "on_base", names.COUNT),
        tree=tree,
        sealed=names.expect(raw, "sealed", names.TEXT) if encrypted else "",
        passphrase_key=names.expect(raw, "passphrase_key", names.TEXT) if encrypted and "passphrase_key" in raw else "",
    )


#: What a manifest says in place of what is missing, since that names documents.
LEFT_OUT = "something was left out; what it was is encrypted"
# Their length says little of a note or of how much is missing.
_STEP = 256


class Facts(Value):
    byte_size: int  # bytes of the documents as canonical JSON
    doc_count: int  # number of documents
    plaintext_sha256: str  # digest of those bytes
    note: str | None = None  # what its writer had to say of it
    incomplete: tuple[str, ...] = ()  # what its writer had to leave out and why
    recipients: tuple[str, ...] = ()  # whom all packs of the chain are encrypted to, sorted
    tree: str = ""  # digest of the names and their contents, empty where it was not told
    ruined: int = 0  # how many documents of the snapshot before it are ruined in it

    def told_of(self, info: SnapshotInfo) -> SnapshotInfo:
        names = ("byte_size", "plaintext_sha256", "note", "incomplete", "doc_count")
        return replace(info, **{name: getattr(self, name) for name in names})


def seal(facts: Facts, snapshot_id: str, lock: Lock) -> str:
    """The facts as a manifest has them: base64 of an age file."""
    raw = {name: getattr(facts, name) for name in names_of(facts)}
    raw |= {"snapshot_id": snapshot_id, "tree": facts.tree or None, "ruined": facts.ruined or None}
    plain = canonical({key: value for key, value in raw.items() if value is not None})
    return base64.b64encode(lock.seal(plain.ljust(-(-len(plain) // _STEP) * _STEP))).decode("ascii")


def unseal(manifest: ChainManifest, identities: Identities | None) -> Facts:
    info = manifest.info
    file = names.manifest_filename(info.label, info.snapshot_id)
    with corrupt(f"what is encrypted in {file} does not decode", file):
        sealed = b"".join(decode_base64([manifest.sealed]))
    raw = _open(manifest, sealed, identities, f"what is encrypted in {file}", file)
    with corrupt(f"what is encrypted in {file} is wrong", file):
        return _facts(load_object(raw.decode("utf-8")), info.snapshot_id)


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
    info, hint = manifest.info, Hint("open", "identities")
    wanted = f"{'its passphrase or ' if manifest.passphrase_key else ''}the identity of one of its recipients"
    why = ", and no identity is given"
    if not age.is_installed():
        wanted, why = f"{wanted}, and {age.WANTED}", ""
    elif identities is not None:
        why = f", and none of what is given opens it ({identities!r})"
    msg = f"snapshot {info.snapshot_id} of label {info.label!r} is encrypted{why}: reading it needs {wanted}"
    return DecryptionError(msg, hint=hint if age.is_installed() or identities is None else None)


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
    if raw.get("snapshot_id") != snapshot_id:
        raise ValueError("it is of another snapshot")
    note = read_note(raw.get("note"))
    if note is None and raw.get("note") is not None:
        raise ValueError("note should be a string")
    return Facts(
        names.expect(raw, "byte_size", names.COUNT),
        names.expect(raw, "doc_count", names.COUNT),
        names.expect(raw, "plaintext_sha256", names.DIGEST),
        note,
        read_lacking(names.expect(raw, "incomplete", names.TEXTS)),
        tuple(names.expect(raw, "recipients", names.TEXTS)),
        names.expect(raw, "tree", names.TREE) or "",
        read_ruined(raw),
    )
