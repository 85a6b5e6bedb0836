"""Pure: the rules of trust of a client. Each takes data that was read; it raises :class:`UntrustedSnapshot` or returns.

Binding to a label, an id and the parts is not a matter of trust: it is required of every snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from colony_memory._boundary import several
from colony_memory._format.json import shown
from colony_memory._format.names import id_order, read_head, require_id
from colony_memory._values import Value, field
from colony_memory.exceptions import Hint, RollbackDetected, UntrustedSnapshot, bad_argument
from colony_memory.signing import decode_did_key, verify_manifest

#: The next step if a snapshot is not signed.
ACCEPT_UNSIGNED = Hint("open", "require_signature", value=False)


class Trust(Value):
    """The trust of a client; by default it accepts every intact snapshot, signed or not."""

    # did:key of each trusted signer, with the last snapshot that it is trusted for, None for all; empty pins none
    issuers: Mapping[str, str | None] = field(default_factory=dict)
    require_signature: bool = False  # refuse what nobody signed
    accept_legacy_pointer: bool = False  # accept unsigned pointers permanently, where 0.1.1 writes too

    @property
    def pins(self) -> bool:
        """True if more is refused than damage, so that the pointer too has to be proven."""
        return bool(self.issuers) or self.require_signature

    def judge(self, manifest: Mapping[str, Any], *, verify: bool = True) -> str | None:
        """The proven issuer, None if nobody signed or nothing was checked; else UntrustedSnapshot.

        An existing signature is checked, whoever made it, unless ``verify`` is false.
        """
        if not verify:
            return None
        name = f"snapshot {shown(manifest.get('snapshot_id'))} of label {shown(manifest.get('label'))}"
        if manifest.get("signature") is None:
            if self.require_signature:
                msg = (
                    f"{name} is not signed, and this client accepts signed snapshots only; if it is yours, accept it "
                    "once, and back it up again"
                )
                raise UntrustedSnapshot(msg, hint=ACCEPT_UNSIGNED)
            return None
        try:
            issuer = verify_manifest(manifest)
        except UntrustedSnapshot as error:
            msg = (
                f"{name} does not match its signature: {error.message}; restore an older one by its id, or fall back "
                "to the newest intact one"
            )
            raise UntrustedSnapshot(msg, hint=Hint("restore", "fallback", value=True)) from error
        self.admit(issuer, manifest.get("snapshot_id"), what=name)
        return issuer

    def judge_pointer(self, pointer: Mapping[str, Any]) -> str | None:
        """Decide on a pointer as :meth:`judge` does on a manifest."""
        name = f"the pointer of label {shown(pointer.get('label'))}"
        if pointer.get("signature") is None:
            if self.require_signature:
                raise UntrustedSnapshot(f"{name} is not signed")
            return None
        try:
            issuer = verify_manifest(pointer)
        except UntrustedSnapshot as error:
            raise UntrustedSnapshot(f"{name} does not match its signature: {error.message}") from error
        # A key that is trusted only up to a snapshot is not believed for a pointer that names nothing.
        self.admit(issuer, pointer.get("snapshot_id") or None, what=name)
        if pointer.get("went_back_from") is not None:
            self.admit(issuer, pointer["went_back_from"], what=name)
        return issuer

    def admit(self, issuer: str, snapshot_id: object, *, what: str) -> None:
        """Raise an UntrustedSnapshot unless this issuer is trusted for the snapshot of this id."""
        if not self.issuers:
            return
        if issuer not in self.issuers:
            trusted = ", ".join(self.issuers)
            # No value in the hint: a command that trusts this signer must not be one paste away.
            msg = f"{what} is signed by {issuer}, and only {trusted} is trusted; if that key is yours, trust it too"
            raise UntrustedSnapshot(msg, hint=Hint("open", "trusted_issuers"))
        last = self.issuers[issuer]
        if last is not None and not (isinstance(snapshot_id, str) and id_order(snapshot_id) <= id_order(last)):
            raise UntrustedSnapshot(f"{what} is signed by {issuer}, which is trusted up to snapshot {last} only")

    def accepts(self, issuer: str | None, snapshot_id: str) -> bool:
        """True if a snapshot of this id is accepted from this issuer, None if nobody signed it."""
        if issuer is None:
            return not self.require_signature
        try:
            self.admit(issuer, snapshot_id, what="it")
        except UntrustedSnapshot:
            return False
        return True

    def check_signer(self, issuer: str | None) -> None:
        """Raise a ValueError if this very client would refuse the snapshot that this signer is about to write."""
        if issuer is None and self.require_signature:
            msg = "this client accepts signed snapshots only, and has no key to sign one with"
            raise bad_argument(msg, hint=Hint("open", "signer"))
        if issuer is not None and self.issuers and self.issuers.get(issuer, "") is not None:
            retired = issuer in self.issuers
            why = "is trusted up to an older snapshot only" if retired else "is not among those that are trusted"
            msg = f"signer {issuer} {why}: this client would refuse its own snapshot"
            raise bad_argument(msg, hint=Hint("open", "trusted_issuers"))


def read_trust(
    trusted_issuers: str | Iterable[str] | Mapping[str, str | None] | None,
    require_signature: bool | None,
    *,
    accept_legacy_pointer: bool,
    signer: str | None,
) -> Trust:
    """The policy by a client's arguments and its signer's did:key; a ValueError if one is malformed."""
    if trusted_issuers is None:
        issuers: dict[str, str | None] = {} if signer is None else {signer: None}
    elif isinstance(trusted_issuers, Mapping):
        issuers = dict(trusted_issuers)
    else:
        issuers = dict.fromkeys(several("trusted_issuers", trusted_issuers))
    if trusted_issuers is not None and not issuers:
        msg = "no issuer is given: give the did:key of each signer, or leave it out"
        raise bad_argument(msg, hint=Hint("open", "trusted_issuers"))
    for did_key, last in issuers.items():
        if not isinstance(did_key, str):
            raise bad_argument(f"{did_key!r} is not a did:key", hint=Hint("open", "trusted_issuers"))
        decode_did_key(did_key)
        if last is not None:
            require_id(last)
    required = bool(issuers) if require_signature is None else require_signature
    return Trust(issuers, required, accept_legacy_pointer)


def lacks_signature(error: Exception | None) -> bool:
    """True if a snapshot is refused only because nobody signed it."""
    return isinstance(error, UntrustedSnapshot) and error.hint == ACCEPT_UNSIGNED


def older_than_signing(label: str, unsigned: Sequence[str]) -> str:
    """The warning of snapshots, newest first, from before a label was signed."""
    what = f"snapshot {unsigned[0]} is" if len(unsigned) == 1 else f"{len(unsigned)} snapshots up to {unsigned[0]} are"
    return f"{what} older than signing in label {label!r}: not signed, and so not trusted"


def follows_signed_pointer(manifest: Mapping[str, Any]) -> bool:
    """True if the writer of a manifest also signs pointers: such a manifest names the snapshot before it."""
    return manifest.get("previous") is not None


def previous_of(manifest: Mapping[str, Any]) -> tuple[str, str] | None:
    """Id and manifest digest of the snapshot before, as a manifest's writer saw it, or None."""
    previous = manifest.get("previous")
    if not isinstance(previous, dict):
        return None
    before, digest = previous.get("snapshot_id"), previous.get("manifest_sha256")
    return (before, digest) if isinstance(before, str) and isinstance(digest, str) else None


def check_newer(label: str, named: str | None, manifest: Mapping[str, Any], *, went_back_from: str | None) -> None:
    """Judge a trusted manifest that a proven pointer does not list, and that is newer than the snapshot it names.

    A writer that died before it moved the pointer leaves one; but the latest that it saw cannot be newer than the one
    that the pointer names now, or named before its owner deleted that: else an older pointer was put back.
    """
    before = previous_of(manifest)
    if before is not None and id_order(before[0]) > max(id_order(named or ""), id_order(went_back_from or "")):
        msg = (
            f"the pointer of label {label!r} is an older one: it names {'snapshot ' + named if named else 'nothing'}, "
            f"and {manifest['snapshot_id']} was made when it named {before[0]}. Restore the right one by its id, and "
            "back it up again"
        )
        raise RollbackDetected(msg, hint=Hint("list_snapshots", label=label))


def check_head(
    label: str, seen: str | int, *, head: str, stream: str | None, listed: Iterable[str] = (), conditional: bool = True
) -> bool:
    """Compare a label's pointer with a head seen before; False if the comparison proves nothing.

    A pointer that lists the head seen before is of the same history, whatever its stream. In a vault without
    conditional writes, two honest writers may write the same generation. RollbackDetected: it is older, or another.
    """
    before = read_head(seen)
    if not head:
        what = f"has no pointer with a generation, and generation {before.generation} was seen before"
        raise RollbackDetected(_rolled_back(label, what), hint=Hint("list_snapshots", label=label))
    now = read_head(head)
    forked = now.generation == before.generation and before.digest not in (None, now.digest)
    foreign = before.stream is not None and stream is not None and before.stream != stream
    foreign = foreign and not any(digest.startswith(f"sha256:{before.digest}") for digest in listed)
    if forked and not conditional and not (foreign and now.generation > 1):
        return False
    if foreign:
        what = f"is of another history, begun as {stream}, and {before.stream} was seen before"
    elif forked:
        what = "holds a different snapshot from the one seen at this generation"
    elif now.generation < before.generation:
        what = f"is at generation {now.generation}, and {before.generation} was seen before"
    else:
        return True
    raise RollbackDetected(_rolled_back(label, what), hint=Hint("list_snapshots", label=label))


def _rolled_back(label: str, what: str) -> str:
    return (
        f"label {label!r} was rolled back: it {what}. Newer memory was removed or replaced. To accept what is there "
        "now, restore a snapshot by its id and back it up again"
    )


#: The trust that pins nobody.
OPEN = Trust()
