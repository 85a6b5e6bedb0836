"""Pure: documents to vault files of format 2 and back; its manifest, every field checked, and the sealed facts."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from colony_memory._boundary import corrupt
from colony_memory._format import FORMAT_2, MAX_BYTES, age, names
from colony_memory._format import manifest as v1
from colony_memory._format.json import canonical, encode_texts, exact_documents, load_object, printable
from colony_memory._format.manifest import BuiltSnapshot, Manifest, read_lacking, read_note, read_ruined, summarize
from colony_memory._format.payload import Spend, check_tree, decode_base64, measure, spend_freely, tree_of_digests
from colony_memory._format.v2.chain import MAX_READ_PACKS, Chain, Link, Pack, extend, read_pack, replay
from colony_memory._format.v2.state import State, most_documents
from colony_memory._format.v2.zstd import WANTED, require_reader, require_zstd
from colony_memory._values import Value, names_of, pattern, replace
from colony_memory.exceptions import DecryptionError, Hint, SnapshotCorrupt, bad_argument

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from colony_memory._format.age import Identities, Lock, Recipients
    from colony_memory._format.manifest import Beside
    from colony_memory.snapshot import SnapshotInfo

CODEC = "zstd+base64"
#: The codec of a snapshot that is encrypted by age.
SEALED_CODEC = "zstd+age+base64"
#: Most files of a snapshot: its readers ask for all of them at once.
MAX_FILES = 10_000
_SIZES = (names.list_of(names.COUNTS[0]), "lists of counts")
# Attempts to unpack a damaged chain, each without the pack that failed and those above it.
_TRIES = 4
# The digest of the pack below, in a pack file: often legible where the rest of the file is damaged.
_BELOW = pattern(r'"below_sha256": ?"(sha256:[0-9a-f]{64})"')


class ChainManifest(Manifest):
    """A manifest of format 2; ``part_files`` are all files that it needs, base first, ``blob_chars`` their bytes."""

    pack_bytes: tuple[tuple[int, ...], ...] = ()  # bytes of each file of each pack
    pack_sha256: str = ""  # digest of the last pack
    levels: tuple[int, ...] = ()  # number of folds that each pack's content went through
    on_base: int = 0  # snapshots that were made on the base before it
    sealed: str = ""  # base64 of the facts that only holders of a key can read, empty without encryption
    passphrase_key: str = ""  # base64 of a key that a passphrase opens, empty if there is none


def check_manifest(raw: Mapping[str, Any], digest_of_file: str) -> ChainManifest:
    label, snapshot_id, encrypted = raw["label"], raw["snapshot_id"], raw["codec"] == SEALED_CODEC
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
    if not 1 <= len(packs) <= MAX_READ_PACKS or packs[-1] != snapshot_id or len({*packs}) < len(packs):
        raise ValueError(f"packs should be up to {MAX_READ_PACKS} ids, each once, its own the last")
    if not all(names.is_place(label, pack_id) for pack_id in packs):
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
        names.pack_filename(label, pack_id, seq)
        for pack_id, counts in zip(packs, sizes, strict=True)
        for seq in range(len(counts))
    )
    return ChainManifest(
        info=replace(summarize(raw), note=None) if encrypted else summarize(raw),  # in the sealed facts alone
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


#: Stands in a manifest for the lines about what is missing, since they name documents.
LEFT_OUT = "something was left out; what it was is encrypted"
# Sealed facts are padded to a multiple of this: their length says little of a note or of how much is missing.
_STEP = 256


class Facts(Value):
    byte_size: int  # bytes of the documents as canonical JSON
    doc_count: int  # number of documents
    plaintext_sha256: str  # digest of those bytes
    note: str | None = None  # its writer's remark
    incomplete: tuple[str, ...] = ()  # lines about what its writer had to leave out and why
    recipients: tuple[str, ...] = ()  # recipients that all packs of the chain are encrypted to, sorted
    tree: str = ""  # digest of the names and their contents, empty if not stored
    ruined: int = 0  # number of documents of the snapshot before it that are ruined in it

    def told_of(self, info: SnapshotInfo) -> SnapshotInfo:
        common = ("byte_size", "plaintext_sha256", "note", "incomplete", "doc_count")
        return replace(info, **{name: getattr(self, name) for name in common})


def seal(facts: Facts, snapshot_id: str, lock: Lock) -> str:
    raw = {name: getattr(facts, name) for name in names_of(facts)}
    raw |= {"snapshot_id": snapshot_id, "tree": facts.tree or None, "ruined": facts.ruined or None}
    plain = canonical({key: value for key, value in raw.items() if value is not None})
    return base64.b64encode(lock.seal(plain.ljust(-(-len(plain) // _STEP) * _STEP))).decode("ascii")


def unseal(manifest: ChainManifest, identities: Identities | None) -> Facts:
    info = manifest.info
    file = names.manifest_filename(info.label, info.snapshot_id)
    with corrupt(f"what is encrypted in {file} does not decode", file):
        sealed = b"".join(decode_base64([manifest.sealed]))
    plain = _open(manifest, sealed, identities, f"what is encrypted in {file}", file)
    with corrupt(f"what is encrypted in {file} is wrong", file):
        raw = load_object(plain.decode("utf-8"))
        note = read_note(raw.get("note"))
        if raw.get("snapshot_id") != info.snapshot_id:
            raise ValueError("it is of another snapshot")
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


def unseal_packs(manifest: ChainManifest, packs: Sequence[Pack], identities: Identities | None) -> list[Pack]:
    out = list[Pack]()
    for pack in packs:
        file = pack.file(manifest.info.label)
        out.append(replace(pack, frame=_open(manifest, pack.frame, identities, f"pack {file}", file)))
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
    """The lock that a snapshot was made with; None if it is not that of these recipients."""
    try:
        key = identities.key_of(manifest.passphrase_key)
    except ValueError:
        return None
    if manifest.passphrase_key and key is None:
        return None
    lock = recipients.lock_with(key)
    return lock if lock is not None and lock.recipients == facts.recipients else None


def build(
    memory: dict[str, str] | State,
    *,
    label: str,
    snapshot_id: str,
    created_at: str,
    parent: Chain | None = None,
    lock: Lock | None = None,
    max_bytes: int = MAX_BYTES,
    **extras: Unpack[Beside],
) -> BuiltSnapshot:
    """Serialise documents into vault files. See :func:`colony_memory.snapshot.build`."""
    state = memory if isinstance(memory, State) else State.of(exact_documents(memory))
    label, snapshot_id = names.sanitize_label(label), names.require_id(snapshot_id)
    require_zstd()
    count, (size, digest) = len(state.names), measure(encode_texts(state.texts()))
    if size > max_bytes or count > most_documents(max_bytes):
        msg = (
            f"the documents are {count} of {size} bytes, more than the {most_documents(max_bytes)} of "
            f"{max_bytes} that this client takes"
        )
        raise bad_argument(msg, hint=Hint("open", "max_bytes"))
    chain, files = extend(parent, state, label=label, pack_id=snapshot_id, max_bytes=max_bytes, lock=lock)
    packs = [link.pack for link in chain.links]
    raw: dict[str, Any] = {
        "format": FORMAT_2,
        "snapshot_id": snapshot_id,
        "label": label,
        "created_at": created_at,
        "packs": [pack.pack_id for pack in packs],
        "pack_bytes": [list(pack.sizes) for pack in packs],
        "pack_sha256": packs[-1].sha256,
        "levels": [link.level for link in chain.links],
        "on_base": chain.on_base,
        "codec": CODEC if lock is None else SEALED_CODEC,
        # Fields that 0.1.1 reads, empty so that it finds nothing to delete with the snapshot.
        "doc_names": [],
        "part_count": 0,
        "part_files": [],
    }
    facts, tree = None, tree_of_digests(state.digests)
    if lock is None:
        raw |= {"plaintext_sha256": digest, "byte_size": size, "doc_count": count, "tree": tree}
    else:
        note, left_out = extras.get("note"), tuple(map(printable, extras.get("incomplete", ())))
        note_text = None if note is None else printable(note)
        facts = Facts(size, count, digest, note_text, left_out, lock.recipients, tree, extras.get("ruined", 0))
        extras |= {"note": None, "incomplete": [LEFT_OUT] if left_out else [], "ruined": 0}
        raw |= {"plaintext_sha256": "", "byte_size": 0, "sealed": seal(facts, snapshot_id, lock)}
        raw |= {} if lock.key is None else {"passphrase_key": lock.key.blob}
    built = v1.finish(raw, files, extras)
    return replace(
        built,
        info=built.info if facts is None else facts.told_of(built.info),
        inherited=tuple(name for pack in packs[:-1] for name in _files(label, pack.pack_id, pack.sizes)),
        packs=tuple(raw["packs"]),
        public=built.info,
        tree=tree,
        chain=chain,
        facts=facts,
        lock=lock,
    )


def _files(label: str, pack_id: str, sizes: Iterable[Any]) -> list[str]:
    return [names.pack_filename(label, pack_id, seq) for seq, _ in enumerate(sizes)]


def read_documents(
    manifest: Manifest,
    texts: dict[str, str | None],
    *,
    identities: Identities | None = None,
    keep: bool = True,
    **bounds: Any,
) -> dict[str, str]:
    """The documents, of either format; none unless they are to ``keep``, since a text may take four times its bytes."""
    if not isinstance(manifest, ChainManifest):
        return v1.read_documents(manifest, texts, **bounds)
    state = read_chain(manifest, texts, identities=identities, **bounds).state
    return state.used_up() if keep else {}


def read_chain(
    manifest: ChainManifest,
    texts: dict[str, str | None],
    *,
    max_bytes: int = MAX_BYTES,
    known: Chain | None = None,
    identities: Identities | None = None,
    spend: Spend = spend_freely,
    by_tree: bool = False,
) -> Chain:
    """The chain, which the next snapshot may extend, checked except for ``known`` packs; consumes the ``texts``."""
    info = manifest.info
    label, file = info.label, names.manifest_filename(info.label, info.snapshot_id)
    wanted = age.WANTED if info.encrypted and not age.is_installed() else WANTED
    require_reader(f"snapshot {info.snapshot_id} of label {label!r}", file=file, wanted=wanted)
    packs = read_packs(manifest, texts, known=() if known is None else [link.pack for link in known.links])
    tree = manifest.tree
    if info.encrypted:
        facts = unseal(manifest, identities)
        info, tree = facts.told_of(info), facts.tree
    v1.require_size(info.byte_size, max_bytes, file)
    if info.encrypted:
        packs = tuple(unseal_packs(manifest, packs, identities))
    state, steps = replay(packs, label=label, max_bytes=max_bytes, known=known, spend=spend)
    expected = info.byte_size, info.plaintext_sha256, info.doc_count
    with corrupt(f"the packs of {file} do not hold documents", file):
        digests = state.digests
        if not (by_tree and tree):
            state.require_texts()
            if (*measure(encode_texts(state.texts())), len(state.names)) != expected:
                msg = f"integrity check failed: the packs of {file} hold different text (plaintext sha256 mismatch)"
                raise SnapshotCorrupt(msg, file=file)
    check_tree(tree, digests, file=file)
    links = tuple(Link(pack, level, *step) for pack, level, step in zip(packs, manifest.levels, steps, strict=True))
    return Chain(links, state, manifest.on_base)


def read_packs(
    manifest: ChainManifest, texts: dict[str, str | None], *, known: Sequence[Pack] = ()
) -> tuple[Pack, ...]:
    """The packs, base first, each proven by the digest in the one above: the stored bytes, since none is unpacked."""
    label, packs, digest = manifest.info.label, list[Pack](), manifest.pack_sha256
    for at in reversed(range(len(manifest.packs))):
        pack_id, sizes = manifest.packs[at], manifest.pack_bytes[at]
        if at < len(known) and (known[at].sha256, known[at].sizes) == (digest, sizes):
            shared = tuple(known[: at + 1])
            # A digest covers all that is below its pack: only a manifest can still list other packs there.
            listed = zip(manifest.packs[: at + 1], manifest.pack_bytes[: at + 1], strict=True)
            if [(pack.pack_id, pack.sizes) for pack in shared] == [*listed]:
                return (*shared, *reversed(packs))
        own_texts = [texts.pop(name, None) for name in _files(label, pack_id, sizes)]
        below = manifest.packs[at - 1] if at else None
        pack = read_pack(label, pack_id, own_texts, sizes=sizes, sha256=digest, below=below)
        packs.append(pack)
        digest = pack.below.sha256 if pack.below else ""
    return tuple(reversed(packs))


def read_proven(
    manifest: ChainManifest,
    texts: dict[str, str | None],
    digests: Mapping[str, str],
    *,
    strict: bool,
    max_bytes: int = MAX_BYTES,
    identities: Identities | None = None,
    spend: Spend = spend_freely,
) -> tuple[str, dict[str, str]] | None:
    """The newest state that the packs of a damaged snapshot still prove: its id and documents, None without a base.

    A pack's digest is in this manifest, a trusted one of its own (``digests``), or, unless ``strict``, any pack above.
    """
    label, proven, recorded = manifest.info.label, dict[int, Pack](), manifest.pack_sha256
    require_reader(f"snapshot {manifest.info.snapshot_id} of label {label!r}")
    for at in reversed(range(len(manifest.packs))):
        pack_id, sizes = manifest.packs[at], manifest.pack_bytes[at]
        own_texts = [texts.pop(name, None) for name in _files(label, pack_id, sizes)]
        below = manifest.packs[at - 1] if at else None
        for digest in dict.fromkeys(filter(None, (recorded, digests.get(pack_id)))):
            try:
                proven[at] = read_pack(label, pack_id, own_texts, sizes=sizes, sha256=digest, below=below)
                break
            except SnapshotCorrupt:
                continue
        lower = proven[at].below if at in proven else None
        hints = [] if strict else [match[1] for text in own_texts if text and (match := _BELOW.search(text[:1000]))]
        recorded = lower.sha256 if lower is not None else next(iter(hints), "")
    count = next(at for at in range(len(manifest.packs)) if at not in proven or at + 1 == len(manifest.packs))
    for _ in range(_TRIES):  # a pack with the right digest may still not unpack
        packs: Sequence[Pack] = [proven[at] for at in range(count)]
        if not packs:
            break
        try:
            packs = unseal_packs(manifest, packs, identities) if manifest.info.encrypted else packs
            state, _ = replay(packs, label=label, max_bytes=max_bytes, spend=spend)
            return packs[-1].pack_id, state.documents()
        except ValueError as error:
            file = error.file if isinstance(error, SnapshotCorrupt) else None
            count = next((at for at, pack in enumerate(packs) if pack.file(label) == file), count - 1)
    return None
