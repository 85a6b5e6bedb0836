"""Bringing complete snapshots into a label unchanged: parts, the manifest, then a row in the catalogue.

A file that is there already is relied upon only if a committed snapshot needs it: others may be about to be deleted.
In a label without a pointer nobody deletes anything; a client without a key brings all of it, and its pointer last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from colony_memory._engine.files import (
    misread,
    prove,
    require_operations,
    require_room,
    require_sizes,
    still_there,
    took_long,
)
from colony_memory._engine.load import Loaded
from colony_memory._engine.publish import Move, publish, require_signer, touch
from colony_memory._engine.session import Session, warn
from colony_memory._engine.state import State, look, read_pointer_file, require_believed, require_listed
from colony_memory._engine.store import ABSENT, ANY, Changed
from colony_memory._format.catalog import Entry, few_lines
from colony_memory._format.names import id_order, manifest_filename, pack_filename, pin_filename, read_head
from colony_memory._format.pointer import read_pointer
from colony_memory._format.v2.build import ChainManifest
from colony_memory._values import replace
from colony_memory.exceptions import ColonyMemoryError, ConflictDetected, Hint, UntrustedSnapshot, VaultError
from colony_memory.trust import previous_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from colony_memory.snapshot import SnapshotInfo

# Seconds by which a generation, which may have been taken from the time, may be ahead of it.
_AHEAD = 86_400
_WHY = "bringing snapshots lists them in it"


class Delivery:
    """Brings snapshots from ``origin`` or an export into one label; ``here`` is its state at the last look."""

    def __init__(self, session: Session, here: State, origin: State | None, *, dry_run: bool) -> None:
        self.dry_run = dry_run  # everything is judged, and nothing written
        self.session, self.label, self.here, self.origin = session, here.label, here, origin
        theirs = () if origin is None else origin.listed.manifests
        # All of them are brought first, and listed last: no pointer could be written for each, or be right meanwhile
        self.mirrors = (
            origin is not None and here.text is None and {*here.listed.manifests} <= {*theirs}
            and (session.signer is None or bool(here.listed.manifests))
        )  # fmt: skip
        self.brought: dict[str, tuple[Loaded, Entry]] = {}  # brought so far, to be listed last
        self.outdated = False  # the origin was changed meanwhile
        self._verified: set[str] = set()  # names of files that are there with the same bytes
        self._stale = self._warned = self._touched = False
        self._empty = here.text is None and not here.listed.manifests

    def require_key(self, now: State | None = None) -> None:
        """Raise if a signed pointer has to list something, and there is no key."""
        if now is not None or not self.mirrors:
            require_signer(self.session, now or self.here, _WHY, conflict=True)

    async def bring(self, loaded: Loaded, *, pin: str | None = None, known: Entry | None = None) -> bool:
        """Bring a snapshot; true if any of its files was written, or would be."""
        session, snapshot_id = self.session, loaded.snapshot_id
        session.trust.judge(loaded.manifest.raw)
        _require_fit(session, loaded)
        if self._stale:
            self.here, self._stale = await look_whole(session, self.label), False
        try:
            missing, keepers = await self._compare(loaded)
        except ConflictDetected:
            if self.dry_run or self._touched or not await touch(session, self.here):
                raise
            # The vault's clock shows now, so what a client left long ago may count, and be listed.
            self.here, self._touched = await look_whole(session, self.label), True
            missing, keepers = await self._compare(loaded)
        listed = self.here.pointer.entry(snapshot_id) is not None
        if not listed:
            self.require_key()
        if missing:
            pin = None if pin_filename(self.label, snapshot_id) in self.here.listed.files else pin
            require_sizes(missing, loaded.named)
            operations = len(missing) + (pin is not None) + 1
            await require_operations(session, operations, f"{loaded.named} with the pointer to it")
            size = sum(len(text.encode("utf-8")) for text in missing.values())
            await require_room(session, size, loaded.named, label=self.label)
        if self.dry_run:
            return bool(missing)
        if missing:
            await self._write(loaded, missing, keepers, pin=pin)
        self._verified |= {*loaded.files}
        session.manifests[loaded.manifest_file] = loaded.manifest
        if loaded.documents:
            session.proved(self.label, snapshot_id)
        if self.mirrors:
            self.brought[snapshot_id] = (loaded, loaded.entry(known))
        elif not listed:
            before = self.here
            if not session.vault.conditional or (missing and not self.here.pointer.generation):
                # The new files show the vault's time, and may have been deleted before the pointer names them.
                self.here = await look_whole(session, self.label)
            await self._list({snapshot_id: (loaded, loaded.entry(known))}, before=before)
        elif missing and (await look_whole(session, self.label)).pointer.entry(snapshot_id) is None:
            await self._withdraw(loaded)
            raise _gone(loaded)
        return bool(missing)

    async def finish(self) -> None:
        """List what was brought, by the origin's pointer as it is if that lists just this."""
        if self.brought:
            needed = [name for loaded, _ in self.brought.values() for name in loaded.files]
            if not await prove(self.session, self.label, needed, own=()):
                raise VaultError(f"files of label {self.label!r} were removed while it was copied: copy again")
            self.here = await look_whole(self.session, self.label)
            await self._list(self.brought)

    async def _compare(self, loaded: Loaded) -> tuple[dict[str, str], set[str]]:
        """The files of a snapshot to write, and the manifests of others that keep the files already there."""
        files, missing, keepers = self.here.listed, set[str](), set[str]()
        row = self.here.pointer.entry(loaded.snapshot_id)
        foreign = {*files.parts.get(loaded.snapshot_id, {}).values()} - {*loaded.files}
        if foreign or (row is not None and row.manifest_sha256 != loaded.manifest.sha256):
            raise _taken(loaded)
        for owner, names, keeper in self._groups(loaded):
            present = {name for name in names if name in files.files or name in self._verified}
            for name, stored in (await self.session.vault.get_many(present - self._verified)).items():
                if stored is None:
                    raise _gone(loaded)
                if stored.content != loaded.files[name]:
                    raise _taken(loaded)
            if present and keeper is None:
                if self.here.text is not None:
                    raise self._in_the_way(loaded, owner)
                present = set()  # left by an earlier try; whoever deletes anything writes a pointer first
            missing |= {*names} - present
            keepers |= {keeper} if present and keeper is not None else set()
        if missing and row is not None and (await read_pointer_file(self.session, self.label))[0] != self.here.text:
            raise _gone(loaded)  # perhaps it was taken out before the label was listed, and files are missing for that
        return {name: loaded.files[name] for name in loaded.files if name in missing}, keepers - {loaded.manifest_file}

    def _groups(self, loaded: Loaded) -> Iterator[tuple[str, list[str], str | None]]:
        """Files that go together: the id in their names, the names, and the manifest, if any, that keeps them."""
        state, manifest_file, manifest = self.here, loaded.manifest_file, loaded.manifest
        rows = state.building if state.text is not None else state.entries
        keepers = {pack: manifest_filename(self.label, row.snapshot_id) for row in reversed(rows) for pack in row.packs}
        keepers |= {pack: other.manifest_file for other, _ in self.brought.values() for pack in other.manifest.packs}
        committed = loaded.snapshot_id in self.brought or any(row.snapshot_id == loaded.snapshot_id for row in rows)
        committed |= state.pointer.entry(loaded.snapshot_id) is not None or self._is_stray(state, loaded)
        keeper = manifest_file if committed else None
        if not isinstance(manifest, ChainManifest):
            yield loaded.snapshot_id, [*loaded.files], keeper
            return
        for pack_id, sizes in zip(manifest.packs, manifest.pack_bytes, strict=True):
            names = [pack_filename(self.label, pack_id, seq) for seq in range(len(sizes))]
            yield pack_id, names, keepers.get(pack_id, keeper)
        yield loaded.snapshot_id, [manifest_file], keeper

    @staticmethod
    def _is_stray(now: State, loaded: Loaded) -> bool:
        """True if a snapshot is only distrusted for its history, and is too old to be under way."""
        snapshot_id = loaded.snapshot_id
        distrusted = snapshot_id in now.untrusted and not now.pointer.took_out(snapshot_id)
        return distrusted and now.listed.is_old(snapshot_id, now=now.asked.now)

    async def _write(
        self, loaded: Loaded, missing: Mapping[str, str], keepers: Iterable[str], *, pin: str | None
    ) -> None:
        session, label = self.session, self.label
        await self._announce(loaded)
        began = session.now()
        written: list[datetime | None] = []
        if pin is not None:  # first, so that no pinned snapshot is ever there without its pin
            await session.vault.put(pin_filename(label, loaded.snapshot_id), pin)
        for done, (name, text) in enumerate(missing.items(), 1):
            exists = name in self.here.listed.files
            try:
                written.append(await session.vault.put(name, text, match=ANY if exists else ABSENT))
            except Changed as error:
                raise _taken(loaded) from error
            session.tell("upload", name, done, len(missing))
        wrong = await misread(session, missing)
        # Where other manifests keep its files, only a listing that shows them together proves that they stay.
        if wrong is None and (keepers or took_long(session, began, written)):
            kept = await prove(session, label, [*loaded.files, *keepers], own=missing)
            wrong = None if kept else f"other clients removed parts of {loaded.named} while it was written"
        if wrong is not None:
            await self._withdraw(loaded)
            raise VaultError(f"{wrong}: try again")

    async def _withdraw(self, loaded: Loaded) -> None:
        """Remove a manifest whose parts others removed, perhaps before it was there, so that nothing of it stays."""
        await self.session.vault.delete(loaded.manifest_file)
        self.session.manifests.pop(loaded.manifest_file, None)

    async def _announce(self, loaded: Loaded) -> None:
        """Let the pointer say that newer snapshots than the one it names may be there.

        A manifest names the snapshot before it; where both are newer than what the pointer names, and no pointer lists
        the new one yet, clients that pin issuers take the pointer for an old one that was put back.
        """
        info, before = loaded.manifest.info, previous_of(loaded.manifest.raw)
        pointer = self.here.pointer
        if self.session.signer is None or before is None or not info.signed or pointer.entry(info.snapshot_id):
            return
        named = max(id_order(pointer.snapshot_id or ""), id_order(pointer.went_back_from or ""))
        seems_old = min(id_order(info.snapshot_id), id_order(before[0])) > named
        if not (seems_old if pointer.generation else not self.here.signs):
            return

        async def change(now: State) -> Move | None:
            _believed(now)
            if now.follow is not None and now.follow not in now.committed:
                return None  # perhaps a backup under way, which has to write the pointer itself
            first, stream = self._empty and now.text is None, loaded.manifest.stream
            return Move(now.follow, now.building, first=first, stream=stream, coming=loaded.snapshot_id)

        await publish(self.session, self.here, change, doubted=True)
        self.here = await look_whole(self.session, self.label)

    async def _list(self, brought: Mapping[str, tuple[Loaded, Entry]], *, before: State | None = None) -> None:
        """Have the pointer list what was brought. It names the newest unless it names a newer one already, and none
        newer than the origin's pointer names. ``before`` is the label before any of it was written.
        """
        session, origin = self.session, self.origin
        named = None if origin is None else origin.follow or origin.pointer.snapshot_id
        up_to_named = [id_ for id_ in brought if named is None or id_order(id_) <= id_order(named)]
        newest = max(up_to_named or brought, key=id_order)
        # The generation continues the origin's, so that heads keep their order for clients that see both vaults.
        generation = 0 if origin is None else origin.pointer.generation
        if origin is not None and not origin.proven and not self._is_sane(generation):
            generation = 0
        lost = dict[str, Loaded]()

        async def change(now: State) -> Move | None:
            _believed(now)
            for loaded, _ in brought.values():
                if now is not before and not self._is_safe(now, loaded, before):
                    await self._withdraw(loaded)
                    lost[loaded.snapshot_id] = loaded
            if lost and now.written in lost:  # this client's own pointer, of a moment ago
                return Move(now.follow, [row for row in now.building if row.snapshot_id not in lost])
            if lost:
                return None
            if self.mirrors and now.text is None and origin is not None and self._may_reuse_pointer(now, origin):
                for name, content in origin.pages.items():
                    await session.vault.put(name, content or "")
                return Move(named, (), text=origin.text)
            self.require_key(now)
            if session.signer is None and origin is not None and origin.pointer.signed:
                self._warn_unsigned()
            follow = now.follow
            if now.text is None:  # the newest that was there before
                follow = max(now.counted - brought.keys(), key=id_order, default=None)
            latest = newest if follow is None or (up_to_named and id_order(newest) >= id_order(follow)) else follow
            if latest not in brought and latest not in now.committed:
                msg = f"snapshot {latest} of label {self.label!r} may be the work of a backup under way: try again"
                raise ConflictDetected(msg, theirs=latest)
            rows = {entry.snapshot_id: entry for entry in now.building}
            rows |= {snapshot_id: entry for snapshot_id, (_, entry) in brought.items()}
            unmerged = () if origin is None else origin.pointer.unmerged
            return Move(
                latest,
                rows.values(),
                above=generation,
                first=self._empty and now.text is None,
                # A history that continues here stays the same to a witness.
                stream=brought[latest][0].manifest.stream if latest in brought else None,
                unmerged=(*now.unmerged, *(save for save in unmerged if save.snapshot_id in brought)),
            )

        await publish(session, self.here, change, doubted=True)
        self._stale = True
        for loaded in lost.values():
            raise _gone(loaded)

    def _is_safe(self, now: State, loaded: Loaded, before: State | None) -> bool:
        """True if a snapshot that was brought is still there, and nobody may be about to delete it."""
        snapshot_id = loaded.snapshot_id
        if snapshot_id in now.committed or self._is_stray(now, loaded):
            return True
        if before is not None and snapshot_id in before.pointer.gone:  # it had been removed before
            return all(name in now.listed.files for name in loaded.files)
        return still_there(now, snapshot_id, loaded.files)

    def _warn_unsigned(self) -> None:
        if self.outdated:
            msg = f"label {self.label!r} was changed while it was copied, and its signed pointer with it: try again"
            raise ConflictDetected(msg, theirs=None)
        if not self._warned:
            warn(
                f"the pointer of label {self.label!r} is not signed here: the signed one, where the snapshots came "
                "from, lists other snapshots than are here. Clients that pin issuers refuse it",
                hint=Hint("open", "signer"),
            )
        self._warned = True

    def _is_sane(self, generation: int) -> bool:
        """False for a generation that may be made up: one at the end of its range would stay there for ever."""
        return generation < self.session.now().timestamp() + _AHEAD

    def _may_reuse_pointer(self, now: State, origin: State) -> bool:
        """True if the origin's pointer lists just what is here, so that it can be written as it is."""
        if origin.text is None or origin.doubt is not None or origin.problem is not None:
            return False
        pointer = read_pointer(origin.text, label=self.label, files=origin.pages)
        brought = {snapshot_id: _row_of(entry) for snapshot_id, (_, entry) in self.brought.items()}
        rows = {entry.snapshot_id: _row_of(entry) for entry in pointer.entries or ()}
        other_streams = {read_head(seen).stream for seen in now.asked.seen} - {None, pointer.stream}
        try:
            self.session.trust.judge_pointer(pointer.raw)
        except UntrustedSnapshot:
            return False
        complete = {*now.listed.manifests} <= brought.keys() and not {*pointer.removed} & brought.keys()
        fit = pointer.signed and pointer.snapshot_id in brought and self._is_sane(pointer.generation)
        return fit and not other_streams and complete and rows == brought

    def _in_the_way(self, loaded: Loaded, owner: str) -> ConflictDetected:
        """The error for files that are there, some of a snapshot's or all, and not committed."""
        what, why = f"files that {loaded.named} needs are there, and no committed snapshot needs them", "they are"
        then, hint = "once they are an hour old, prune, and try again", Hint("prune", label=self.label)
        if owner == loaded.snapshot_id and loaded.manifest_file in self.here.listed.files:
            what, why = f"{loaded.named} is there, and no catalogue lists it", "it is"
            then, hint = "to make way, delete it", Hint("delete_snapshot", "snapshot_id", owner, label=self.label)
        msg = f"{what}: either {why} being removed, or left by a client that was interrupted; {then}"
        return ConflictDetected(msg, theirs=loaded.snapshot_id, hint=hint)


def _require_fit(session: Session, loaded: Loaded) -> None:
    if session.recipients is not None and not loaded.manifest.info.encrypted:
        raise ConflictDetected(
            f"{loaded.named} is not encrypted, and this client writes nothing in the clear: restore it and back it up, "
            "or copy it with a client that does not encrypt",
            theirs=None,
        )
    if loaded.manifest.packs and not session.vault.conditional:
        raise needs_conditions(loaded.named)


def needs_conditions(what: str) -> ColonyMemoryError:
    return ColonyMemoryError(
        f"{what} is of format 2, which needs a vault with conditional writes, and this one has none: rewrite its label "
        "in format 1 first"
    )


async def look_whole(session: Session, label: str) -> State:
    """Look at all of a label; raises if its listing is cut, it was set back, or its pointer is not trusted."""
    state = await look(session, label, everything=True)
    require_listed(state, "bringing snapshots")
    return _believed(state)


def _believed(state: State) -> State:
    """The state, if the label was not set back and its pointer is trusted; it may have no pointer."""
    if state.text is not None:
        require_believed(state)
    return state


def _row_of(entry: Entry) -> tuple[str, SnapshotInfo]:
    # A row may say ``refused`` of a snapshot whose manifest was written too early for that.
    info = replace(entry.info, pinned=False, pinned_until=None, head="", refused=False)
    return entry.manifest_sha256, replace(info, incomplete=few_lines(info.incomplete))


def _taken(loaded: Loaded) -> ConflictDetected:
    msg = (
        f"something else is stored under the id of {loaded.named}, or of a pack that it needs, so it is not written; "
        "verify tells whether the one that is there is damaged; to make way, delete that one"
    )
    return ConflictDetected(msg, theirs=loaded.snapshot_id, hint=Hint("verify", label=loaded.manifest.info.label))


def _gone(loaded: Loaded) -> ConflictDetected:
    msg = f"another client removed {loaded.named} while it was being written: try again"
    return ConflictDetected(msg, theirs=loaded.snapshot_id)
