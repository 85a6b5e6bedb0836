"""Pure: documents to vault files of format 2 and back."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from colony_memory._boundary import corrupt
from colony_memory._format import FORMAT_2, MAX_BYTES, age
from colony_memory._format import manifest as v1
from colony_memory._format.json import encode_texts, exact_documents, printable
from colony_memory._format.manifest import BuiltSnapshot, Manifest, finish, require_size
from colony_memory._format.names import manifest_filename, pack_filename, require_id, sanitize_label
from colony_memory._format.payload import Spend, check_tree, spend_freely, tree_of_digests
from colony_memory._format.v2.chain import Chain, Link, Pack, extend, read_pack, replay
from colony_memory._format.v2.manifest import (
    CODEC,
    LEFT_OUT,
    SEALED_CODEC,
    ChainManifest,
    Facts,
    seal,
    unseal,
    unseal_packs,
)
from colony_memory._format.v2.state import State, most_documents
from colony_memory._format.v2.zstd import WANTED, require_reader, require_zstd
from colony_memory._values import pattern, replace
from colony_memory.exceptions import Hint, SnapshotCorrupt, bad_argument

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from typing_extensions import Unpack

    from colony_memory._format.age import Identities, Lock
    from colony_memory._format.manifest import Beside

# How often what lies below a pack that does not unpack is tried instead.
_TRIES = 4
# What a pack file tells of the pack below, which may be read where the rest of the file is damaged.
_BELOW = pattern(r'"below_sha256": ?"(sha256:[0-9a-f]{64})"')


def build(
    memory: dict[str, str] | State,
    *,
    label: str,
    snapshot_id: str,
    created_at: str,
    parent: Chain | None = None,
    lock: Lock | None = None,
    max_bytes: int = MAX_BYTES,
    **beside: Unpack[Beside],
) -> BuiltSnapshot:
    """Serialise documents into vault files. See :func:`colony_memory.snapshot.build`."""
    state = memory if isinstance(memory, State) else State.of(exact_documents(memory))
    label, snapshot_id = sanitize_label(label), require_id(snapshot_id)
    require_zstd()
    count, (size, digest) = len(state.names), measure(state)
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
        # What 0.1.1 asks for, so that it finds nothing to delete with it.
        "doc_names": [],
        "part_count": 0,
        "part_files": [],
    }
    facts, tree = None, tree_of_digests(state.digests)
    if lock is None:
        raw |= {"plaintext_sha256": digest, "byte_size": size, "doc_count": count, "tree": tree}
    else:
        note, left_out = beside.get("note"), tuple(map(printable, beside.get("incomplete", ())))
        told = None if note is None else printable(note)
        facts = Facts(size, count, digest, told, left_out, lock.recipients, tree, beside.get("ruined", 0))
        beside |= {"note": None, "incomplete": [LEFT_OUT] if left_out else [], "ruined": 0}
        raw |= {"plaintext_sha256": "", "byte_size": 0, "sealed": seal(facts, snapshot_id, lock)}
        raw |= {} if lock.key is None else {"passphrase_key": lock.key.blob}
    made = finish(raw, files, beside)
    return replace(
        made,
        info=made.info if facts is None else facts.told_of(made.info),
        inherited=tuple(name for pack in packs[:-1] for name in _files(label, pack.pack_id, pack.sizes)),
        packs=tuple(raw["packs"]),
        public=made.info,
        tree=tree,
        chain=chain,
        facts=facts,
        lock=lock,
    )


def measure(state: State) -> tuple[int, str]:
    hasher, size = hashlib.sha256(), 0
    for piece in encode_texts(state.texts()):
        hasher.update(piece)
        size += len(piece)
    return size, "sha256:" + hasher.hexdigest()


def _files(label: str, pack_id: str, sizes: Iterable[Any]) -> list[str]:
    return [pack_filename(label, pack_id, seq) for seq, _ in enumerate(sizes)]


def read_documents(
    manifest: Manifest, texts: dict[str, str | None], *, identities: Identities | None = None, **bounds: Any
) -> dict[str, str]:
    """The documents, of whichever format; arguments are those of :func:`read_chain`."""
    if not isinstance(manifest, ChainManifest):
        return v1.read_documents(manifest, texts, **bounds)
    return read_chain(manifest, texts, identities=identities, **bounds).state.used_up()


def check_documents(
    manifest: Manifest, texts: dict[str, str | None], *, identities: Identities | None = None, **bounds: Any
) -> None:
    """As :func:`read_documents`, without keeping them: a text takes up to four times its bytes in memory."""
    if isinstance(manifest, ChainManifest):
        read_chain(manifest, texts, identities=identities, **bounds)
    else:
        v1.read_documents(manifest, texts, **bounds)


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
    """The chain that the next snapshot may go on from, every byte of it checked; the ``texts`` are used up.

    Of packs that a ``known`` chain has too, nothing is read anew; ``by_tree``, a tree is proof enough.
    """
    info = manifest.info
    label, file = info.label, manifest_filename(info.label, info.snapshot_id)
    wanted = age.WANTED if info.encrypted and not age.is_installed() else WANTED
    require_reader(f"snapshot {info.snapshot_id} of label {label!r}", file=file, wanted=wanted)
    packs = read_packs(manifest, texts, known=() if known is None else [link.pack for link in known.links])
    tree = manifest.tree
    if info.encrypted:
        facts = unseal(manifest, identities)
        info, tree = facts.told_of(info), facts.tree
    require_size(info.byte_size, max_bytes, file)
    if info.encrypted:
        packs = tuple(unseal_packs(manifest, packs, identities))
    state, steps = replay(packs, label=label, max_bytes=max_bytes, known=known, spend=spend)
    told = info.byte_size, info.plaintext_sha256, info.doc_count
    with corrupt(f"the packs of {file} do not hold documents", file):
        digests = state.digests
        if not (by_tree and tree):
            state.require_texts()
            if (*measure(state), len(state.names)) != told:
                msg = f"integrity check failed: the packs of {file} hold different text (plaintext sha256 mismatch)"
                raise SnapshotCorrupt(msg, file=file)
    check_tree(tree, digests, file=file)
    links = tuple(Link(pack, level, *step) for pack, level, step in zip(packs, manifest.levels, steps, strict=True))
    return Chain(links, state, manifest.on_base)


def read_packs(
    manifest: ChainManifest, texts: dict[str, str | None], *, known: Sequence[Pack] = ()
) -> tuple[Pack, ...]:
    """The packs, base first, by the digest of the one above each. Nothing is unpacked: this proves stored bytes."""
    label, packs, sha256_of = manifest.info.label, list[Pack](), manifest.pack_sha256
    for at in reversed(range(len(manifest.packs))):
        pack_id, sizes = manifest.packs[at], manifest.pack_bytes[at]
        if at < len(known) and (known[at].sha256, known[at].sizes) == (sha256_of, sizes):
            same = tuple(known[: at + 1])
            # A digest covers all that is below it: only a manifest can still tell another story of that.
            told = zip(manifest.packs[: at + 1], manifest.pack_bytes[: at + 1], strict=True)
            if [(pack.pack_id, pack.sizes) for pack in same] == [*told]:
                return (*same, *reversed(packs))
        own = [texts.pop(name, None) for name in _files(label, pack_id, sizes)]
        below = manifest.packs[at - 1] if at else None
        pack = read_pack(label, pack_id, own, sizes=sizes, sha256=sha256_of, below=below)
        packs.append(pack)
        sha256_of = pack.below.sha256 if pack.below else ""
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
    """The newest state that the packs of a damaged snapshot still prove, as the id that it was saved under and its
    documents; None where its base is not proven.

    A pack is proven by its digest, which the manifest, a believed manifest of its own (``digests``), or the pack above
    it tells; where ``strict``, none that is not proven itself: somebody may have made it.
    """
    label, proven, told = manifest.info.label, dict[int, Pack](), manifest.pack_sha256
    require_reader(f"snapshot {manifest.info.snapshot_id} of label {label!r}")
    for at in reversed(range(len(manifest.packs))):
        pack_id, sizes = manifest.packs[at], manifest.pack_bytes[at]
        own = [texts.pop(name, None) for name in _files(label, pack_id, sizes)]
        below = manifest.packs[at - 1] if at else None
        for digest in dict.fromkeys(filter(None, (told, digests.get(pack_id)))):
            try:
                proven[at] = read_pack(label, pack_id, own, sizes=sizes, sha256=digest, below=below)
                break
            except SnapshotCorrupt:
                continue
        known = proven[at].below if at in proven else None
        hints = [] if strict else [found[1] for text in own if text and (found := _BELOW.search(text[:1000]))]
        told = known.sha256 if known is not None else next(iter(hints), "")
    count = next(at for at in range(len(manifest.packs)) if at not in proven or at + 1 == len(manifest.packs))
    for _ in range(_TRIES):  # one that is as it was written may still not unpack
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
