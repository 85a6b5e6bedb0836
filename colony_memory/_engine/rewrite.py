"""rewrite: save the snapshots of a label anew, without documents or texts, in another format or under today's keys, and
delete the old ones. Each is listed before the next is written, with an id one microsecond after the old one's, so that
it takes its place by age. Wherever this stops, every listed snapshot restores, and doing it again goes on.
"""

from __future__ import annotations

import base64
import copy
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from colony_memory._boundary import texts
from colony_memory._engine.backup.save import give_up, write_files
from colony_memory._engine.files import remove_snapshots, require_room, require_sizes, still_there
from colony_memory._engine.label import GRACE, few, pin_text
from colony_memory._engine.load import Loaded, Reader, builder, opens, would_do
from colony_memory._engine.observe import observed
from colony_memory._engine.publish import Move, publish, require_signer
from colony_memory._engine.state import State, look, look_at_all, require_believed
from colony_memory._format import FORMAT, FORMAT_2, names
from colony_memory._format.catalog import Entry
from colony_memory._format.lineage import Unmerged, stand_ins
from colony_memory._format.record import RECORDS, dump_record, read_record, without
from colony_memory._values import replace
from colony_memory.exceptions import (
    ColonyMemoryError,
    ConflictDetected,
    DecryptionError,
    Hint,
    SnapshotCorrupt,
    UntrustedSnapshot,
    VaultError,
    bad_argument,
)
from colony_memory.reports import RewriteReport
from colony_memory.signing import did_key_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from colony_memory._engine.session import Session
    from colony_memory._format.age import Lock
    from colony_memory._format.v2.chain import Chain
    from colony_memory.snapshot import BuiltSnapshot

# Rounds: each rewrites what others saved during the one before.
_ROUNDS = 4
_WHY = "rewriting puts other snapshots into it"


class Terms:
    """The form of new snapshots: without documents by globs, with texts replaced, in a format if one is given."""

    def __init__(
        self, exclude: str | Iterable[str], replaced: Mapping[str, str] | None, wire: str | None, *, sign: bool
    ) -> None:
        self.exclude, self.replaced = tuple(texts("exclude", exclude)), tuple((replaced or {}).items())
        self.wire, self.sign, self.take_out = wire, sign, bool(self.exclude or self.replaced)
        old, new = texts("replaced", [old for old, _ in self.replaced]), [new for _, new in self.replaced]
        texts("replacement", new)
        if not all((*self.exclude, *old)):
            raise ValueError("what to exclude or replace must be text, and not empty")
        if any(part in text for part in old for text in new):
            raise ValueError("a replacement must not hold a text that is replaced")

    def text(self, text: str) -> str:
        for old, new in self.replaced:
            text = text.replace(old, new)
        return text

    def holds(self, text: str | bytes) -> bool:
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        return any(old.encode("utf-8", "surrogatepass") in data for old, _ in self.replaced)

    def is_excluded(self, name: str) -> bool:
        return any(fnmatchcase(name, glob) for glob in self.exclude)

    def documents(self, documents: Mapping[str, str], named: str) -> dict[str, str]:
        kept = {name: text for name, text in documents.items() if not self.is_excluded(name)}
        hidden, records = [name for name in kept if self.holds(name)], set[str]()
        for name in RECORDS:
            record = read_record(kept.get(name))
            if record is None:
                continue
            records.add(name)
            rest = without(record, self.is_excluded)
            files = rest["files"] if isinstance(rest.get("files"), dict) else {}
            hidden += [path for path, data in files.items() if self.holds(_bytes_of(data))]
            if self.holds(dump_record({**rest, "files": {}})):
                hidden.append(name)
            if rest != record:
                kept[name] = dump_record(rest)
            if rest.keys() == {"format"}:
                del kept[name]
        if hidden:
            where = "in a file that is not text, in a name, or in a link"
            raise ColonyMemoryError(f"{named}: the text to replace is {where}: exclude {few(hidden)}")
        if not kept:
            raise ColonyMemoryError(f"{named} would be left with nothing: delete it first")
        return {name: text if name in records else self.text(text) for name, text in kept.items()}


def _bytes_of(data: object) -> bytes:
    try:
        return base64.b64decode(str(data))
    except ValueError:
        return str(data).encode("utf-8", "surrogatepass")


def require_work(*choices: object) -> None:
    """Raise if there is nothing to do; before a memory is opened, since that makes its witness."""
    if not any(choices):
        raise ValueError("there is nothing to do: say what to exclude or replace, a format, or what to sign or encrypt")


@observed("rewrite")
async def rewrite(
    session: Session,
    *,
    label: str,
    exclude: str | Iterable[str],
    replaced: Mapping[str, str] | None,
    wire: str | None,
    sign: bool,
    encrypt_to: object,
    dry_run: bool,
) -> RewriteReport:
    from colony_memory.encryption import read_recipients

    terms = Terms(exclude, replaced, wire, sign=sign)
    if encrypt_to is not None:
        session = copy.copy(session)
        session.recipients, session.parents = read_recipients(encrypt_to), {}
        if wire == FORMAT:
            raise ValueError("format 1 cannot be encrypted: leave the format out, or give 2")
    require_work(terms.take_out, terms.wire, terms.sign, session.recipients)
    if terms.sign and session.signer is None:
        raise bad_argument("there is no key to sign with", hint=Hint("open", "signer"))
    job = _Rewriting(session, names.require_label(label), terms)
    state = await look_at_all(session, job.label, "rewriting")
    writes = size = 0
    async for _, _, built in job.rebuilt(state):
        if built is not None:
            if built.lock is not None and not opens(session.identities, built.lock):
                msg = f"label {job.label!r} would be encrypted so that no identity of this client opens it to go on"
                raise bad_argument(f"{msg}: give one that does", hint=Hint("open", "identities"))
            require_sizes(built.files, f"snapshot {built.info.snapshot_id} of label {job.label!r}")
            writes += len(built.files) + 1
            size += sum(len(text.encode("utf-8")) for text in built.files.values())
    unchanged = job.unchanged
    if dry_run:
        return RewriteReport(job.label, {}, unchanged, writes, size, dry_run=True)
    if writes:
        await require_room(session, size + len(state.text or ""), f"label {job.label!r} saved anew", label=job.label)
    for _ in range(_ROUNDS):
        if not await job.save_all():
            break
    else:
        raise ConflictDetected(f"label {job.label!r} kept changing while it was rewritten: try again", theirs=None)
    deleted = await job.drop()
    leftovers, due = _leftovers(session, await look(session, job.label, everything=True))
    return RewriteReport(job.label, job.done, unchanged, writes, size, deleted, leftovers, due)


class _Rewriting:
    """One label that is being rewritten."""

    def __init__(self, session: Session, label: str, terms: Terms) -> None:
        self.session, self.label, self.terms = session, label, terms
        self.done: dict[str, str] = {}  # new ids by old ids
        self.unchanged = 0  # number of snapshots that needed no rewrite
        self._clean: set[str] = set()  # ids of those whose text stays as it is
        self._parent: tuple[Chain | None, Lock | None] = (None, None)
        self._written = ""  # the manifest that was written last

    async def rebuilt(self, state: State) -> AsyncIterator[tuple[Entry, Loaded, BuiltSnapshot | None]]:
        """Each snapshot that has no new one yet, oldest first, and the new one to save, None if it stays as it is."""
        self._clean, self._parent, self.unchanged = set(), (None, None), 0
        for error in state.untrusted.values():
            raise error  # with what to do if it is one's own: it is not damaged
        for file, why in state.broken.items():
            msg = f"{file} cannot be read, and so cannot be rewritten: delete that snapshot first ({why})"
            raise SnapshotCorrupt(msg, file=file, hint=Hint("delete_snapshot", label=self.label))
        if state.follow is not None and state.follow not in state.committed:
            what = f"snapshot {state.follow} of label {self.label!r} may be the work of a backup under way: try again"
            raise ConflictDetected(what, theirs=state.follow)
        reader, instead = Reader(self.session), stand_ins(state.infos)
        rows = [row for row in reversed(state.building) if row.snapshot_id not in instead]
        for row in rows:
            loaded = await reader.read(self.label, row.snapshot_id)
            yield row, loaded, await self._build(state, row, loaded, instead | self.done)

    async def save_all(self) -> bool:
        """Save each snapshot that needs a rewrite; true if there was any."""
        state, found = await look_at_all(self.session, self.label, "rewriting"), False
        async for row, loaded, built in self.rebuilt(state):
            if built is not None:
                found = True
                await self._save(row, loaded, built)
        return found

    async def _build(self, state: State, row: Entry, loaded: Loaded, ids: Mapping[str, str]) -> BuiltSnapshot | None:
        session, terms, info = self.session, self.terms, loaded.info
        if not loaded.documents:
            msg = f"{loaded.named} is encrypted, and no identity of this client opens it"
            raise DecryptionError(msg, hint=Hint("open", "identities"))
        documents = terms.documents(loaded.documents, loaded.named)
        before: dict[str, Any] = {"note": info.note, "incomplete": info.incomplete, "tags": info.tags}
        facts = {
            "note": None if info.note is None else terms.text(info.note),
            "incomplete": tuple(map(terms.text, info.incomplete)),
            "tags": tuple(tag for tag in info.tags if not terms.holds(tag)),
        }
        wire = FORMAT_2 if session.recipients is not None else terms.wire or info.format
        same = documents == loaded.documents and facts == before
        if same:
            self._clean.add(row.snapshot_id)
        # A pack has the text of the snapshot that wrote it, which may not be listed any more.
        packs_clean = not terms.take_out or self._clean.issuperset(loaded.manifest.packs)
        did = None if session.signer is None else did_key_of(session.signer)
        signed = not terms.sign or info.issuer == did
        if same and packs_clean and signed and wire == info.format and would_do(session, row):
            self.unchanged += 1
            return None
        if info.encrypted and session.recipients is None:
            msg = f"{loaded.named} is encrypted, and would not be encrypted any more: name its recipients"
            raise ColonyMemoryError(msg, hint=Hint("open", "encrypt_to"))
        if info.signed and session.signer is None:
            msg = f"{loaded.named} is signed, and saving it anew takes a signer"
            raise UntrustedSnapshot(msg, hint=Hint("open", "signer"))
        old, lineage = row.snapshot_id, loaded.manifest.lineage
        based_on = lineage.based_on and tuple(ids.get(id_, id_) for id_ in lineage.based_on)
        lineage = replace(lineage, based_on=based_on, unmerged=_renamed(lineage.unmerged, ids), rewrites=old)
        made = names.id_time(old) or names.read_stamp(info.created_at) or session.now()
        built: BuiltSnapshot = await session.vault.compute(
            lambda **details: builder(session, wire, *self._parent)(documents, **details),
            label=self.label,
            snapshot_id=names.new_id(made, session.token(), [old]),
            created_at=info.created_at,
            signer=session.signer,
            previous=state.previous,
            stream=state.stream or session.stream(self.label),
            ruined=loaded.manifest.ruined,
            lineage=lineage,
            max_bytes=session.max_bytes,
            **facts,
        )
        if built.chain is not None:
            self._parent = (built.chain, built.lock)
        return built

    async def _save(self, row: Entry, loaded: Loaded, built: BuiltSnapshot) -> None:
        """Write a new snapshot, and have the pointer list it next to the old one."""
        session, label, old, new = self.session, self.label, row.snapshot_id, built.info.snapshot_id
        state = await look(session, label, everything=True)
        require_signer(session, state, _WHY)
        for entry in state.entries:
            if entry.info.rewrites == old and entry.snapshot_id not in state.committed:
                # Left by an earlier try, and in no pointer: once it is old, it would count as one more snapshot.
                await session.vault.delete(names.manifest_filename(label, entry.snapshot_id))
        if old in state.listed.pins:
            end = state.listed.pin_ends.get(old)
            await session.vault.put(names.pin_filename(label, new), pin_text(label, new, end))
        # The snapshot that was written before it keeps what it builds on.
        needed = [*built.inherited, self._written] if built.inherited else []
        gone = not await write_files(session, built, needed, loaded.documents)

        async def change(now: State) -> Move | None:
            nonlocal gone
            require_believed(now)
            require_signer(session, now, _WHY)
            if now is not state:
                gone = not still_there(now, new, [*built.files, *needed])
            gone = gone or all(entry.snapshot_id != old for entry in now.building)
            if gone:
                return None
            info = replace(built.listed, refused=built.listed.refused or row.info.refused)
            known = (row.shrunk_at, built.packs, row.spoiled, loaded.manifest.ruined, built.base_files)
            new_row = Entry(info, built.manifest_sha256, *known)
            latest = new if now.follow == old else now.follow
            return Move(latest, [*now.building, new_row], unmerged=_renamed(now.unmerged, {old: new}))

        if not gone:
            await publish(session, state, change)
        if gone:
            await give_up(session, built)
            raise VaultError(f"{loaded.named} was deleted, or changed, while it was rewritten: do it again")
        self.done[old] = new
        self._written = built.manifest_file
        session.parents.pop(label, None)

    async def drop(self) -> int:
        session, victims = self.session, list[str]()

        async def change(now: State) -> Move | None:
            nonlocal victims
            require_believed(now)
            require_signer(session, now, _WHY)
            instead = stand_ins(row.info for row in now.building)
            victims = [row.snapshot_id for row in now.building if row.snapshot_id in instead]
            if not victims:
                return None
            rows = [row for row in now.building if row.snapshot_id not in instead]
            return Move(instead.get(str(now.follow), now.follow), rows, victims)

        done = (await publish(session, await look(session, self.label, everything=True), change)).state
        if victims:
            await remove_snapshots(session, done.listed, victims, needs=done.needs)
        return len(victims)


def _renamed(unmerged: Iterable[Unmerged], instead: Mapping[str, str]) -> tuple[Unmerged, ...]:
    return tuple(save._replace(snapshot_id=instead.get(save.snapshot_id, save.snapshot_id)) for save in unmerged)


def _leftovers(session: Session, state: State) -> tuple[tuple[str, ...], str | None]:
    """Files that no snapshot needs and that are still there, and the time from which a prune removes them."""
    files, needed = state.listed, {names.latest_filename(state.label), *(state.listed.named or ())}
    for row in state.entries:
        snapshot_id = row.snapshot_id
        needed |= {
            names.manifest_filename(state.label, snapshot_id),
            *files.owned(snapshot_id),
            *files.pack(snapshot_id),
        }
        needed.update(name for pack in row.packs for name in files.pack(pack))
    leftovers = tuple(sorted(files.files.keys() - needed))
    return leftovers, names.stamp(max(files.written(leftovers) or [session.now()]) + GRACE) if leftovers else None


async def remaining_text(
    session: Session, *, label: str, gone: Iterable[str]
) -> tuple[list[str], list[str], str | None]:
    """Deleted snapshots whose packs others need; packs that nothing needs, and the time when a prune removes these."""
    state = await look(session, names.require_label(label), everything=True)
    needed = {pack for row in state.building for pack in row.packs}
    left, until = _leftovers(session, state)
    packs = {name for pack in state.listed.packs for name in state.listed.pack(pack)}
    shared = [snapshot_id for snapshot_id in gone if snapshot_id in needed]
    return shared, [name for name in left if name in packs], until
