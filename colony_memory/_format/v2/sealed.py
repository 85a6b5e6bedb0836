"""Pure: what an encrypted snapshot says of itself to those alone who hold a key."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from colony_memory._format import age
from colony_memory._format.json import canonical, load_object
from colony_memory._format.manifest import read_lacking, read_note, read_ruined
from colony_memory._format.names import is_digest, manifest_filename
from colony_memory._format.payload import decode_base64
from colony_memory._format.tree import read_tree
from colony_memory._values import dataclass
from colony_memory.exceptions import DecryptionError, Hint, SnapshotCorrupt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from colony_memory._format.age import Identities, Lock, Recipients
    from colony_memory._format.v2.manifest import ChainManifest
    from colony_memory._format.v2.pack import Pack
    from colony_memory.snapshot import SnapshotInfo

#: What a manifest says in place of what is missing, since that names documents.
LEFT_OUT = "something was left out; what it was is encrypted"
# Their length says little of a note or of how much is missing.
_STEP = 256
# What a JSON reader of any language holds exactly.
_LARGEST = 2**53 - 1


@dataclass(frozen=True)
class Facts:
    """What a manifest in the clear would say.

    Attributes:
        byte_size: Bytes of the documents as canonical JSON.
        doc_count: Number of documents.
        plaintext_sha256: Digest of those bytes.
        note: What its writer had to say of it.
        incomplete: What its writer had to leave out and why.
        recipients: Whom all packs of the chain are encrypted to, sorted.
        tree: Digest of the names and their contents, empty where it was not told.
        ruined: How many documents of the snapshot before it are ruined in it.
    """

    byte_size: int
    doc_count: int
    plaintext_sha256: str
    note: str | None = None
    incomplete: tuple[str, ...] = ()
    recipients: tuple[str, ...] = ()
    tree: str = ""
    ruined: int = 0

    def told_of(self, info: SnapshotInfo) -> SnapshotInfo:
        """The summary with what it does not say in the clear."""
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
    if facts.note is not None:
        raw["note"] = facts.note
    if facts.ruined:
        raw["ruined"] = facts.ruined
    plain = canonical(raw)
    return base64.b64encode(lock.seal(plain.ljust(-(-len(plain) // _STEP) * _STEP))).decode("ascii")


def unseal(manifest: ChainManifest, identities: Identities | None) -> Facts:
    """The facts of a manifest.

    Raises:
        DecryptionError: Nothing opens it that is there.
        SnapshotCorrupt: It does not hold them.
    """
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
    """The packs with their frames in the clear.

    Raises:
        DecryptionError: Nothing opens one that is there.
        SnapshotCorrupt: One is no age file, or is damaged.
    """
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
