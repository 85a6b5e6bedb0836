"""Bringing whole snapshots into a label as they are: parts, the manifest, then a row in the catalogue.

A file that is there is relied upon only where a committed snapshot needs it: else it may be on its way out. Where the
label has no pointer yet, nobody removes anything, and whoever has no key brings all of it, and its pointer last.
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

# Seconds by which a count of writes that was taken up from the time may run ahead of it.
_AHEAD = 86_400
_WHY = "bringing snapshots lists them in it"


class Delivery:
    """Snapshots that one client brings into one label, ``here`` as it was looked at last, from ``origin`` or a file."""

    def __init__(self, session: Session, here: State, origin: State | None, *, dry_run: bool) -> None:
        self.dry_run = dry_run  # whether all is judged, and nothing written
        self.session, self.label, self.here, self.origin = session, here.label, here, origin
        mine = () if origin is None else origin.listed.manifests
        # All of it is brought first, and listed last: no pointer could be written for each, or be right meanwhile
        self.mirrors = (
            origin is not None and here.text is None and {*here.listed.manifests} <= {*mine}
            and (session.signer is None or bool(here.listed.manifests))
        )  # fmt: skip
        self.brought: dict[str, tuple[Loaded, Entry]] = {}  # what was brought so far, in this way
        self.outdated = False  # the origin was changed meanwhile
        self._same: set[str] = set()
        self._old = self._warned = self._aged = False
        self._empty = here.text is None and not here.listed.manifests

    def require_key(self, now: State | None = None) -> None:
        """Raise where something is to be listed by a signed pointer, and there is no key."""
        if now is not None or not self.mirrors:
            require_signer(self.session, now or self.here, _WHY, conflict=True)

    async def bring(self, whole: Loaded, *, pin: str | None = None, known: Entry | None = None) -> bool:
        """Bring a snapshot; whether anything of it was written, or would be."""
        session, own = self.session, whole.snapshot_id
        session.trust.judge(whole.manifest.raw)
        _require_fit(session, whole)
        if self._old:
            self.here, self._old = await look_whole(session, self.label), False
        try:
            missing, keepers = await self._compare(whole)
        except ConflictDetected:
            if self.dry_run or self._aged or not await touch(session, self.here):
                raise
            # The vault's clock shows now: what a client left that stopped long ago may count, and be listed.
            self.here, self._aged = await look_whole(session, self.label), True
            missing, keepers = await self._compare(whole)
        listed = self.here.pointer.entry(own) is not None
        if not listed:
            self.require_key()
        if missing:
            pin = None if pin_filename(self.label, own) in self.here.listed.files else pin
            require_sizes(missing, whole.named)
            needs = len(missing) + (pin is not None) + 1
            await require_operations(session, needs, f"{whole.named} with the pointer to it")
            size = sum(len(text.encode("utf-8")) for text in missing.values())
            await require_room(session, size, whole.named, label=self.label)
        if self.dry_run:
            return bool(missing)
        if missing:
            await self._write(whole, missing, keepers, pin=pin)
        self._same |= {*whole.files}
        session.manifests[whole.manifest_file] = whole.manifest
        if whole.documents:
            session.proved(self.label, own)
        if self.mirrors:
            self.brought[own] = (whole, whole.entry(known))
        elif not listed:
            before = self.here
            if not session.vault.conditional or (missing and not self.here.pointer.generation):
                # What was written shows the vault's time, and may have been deleted before the pointer names it.
                self.here = await look_whole(session, self.label)
            await self._list({own: (whole, whole.entry(known))}, before=before)
        elif missing and (await look_whole(session, self.label)).pointer.entry(own) is None:
            await self._withdraw(whole)
            raise _gone(whole)
        return bool(missing)

    async def finish(self) -> None:
        """List what was brought, by the pointer of where it comes from as it is, if it says just that."""
        if self.brought:
            needed = [name for whole, _ in self.brought.values() for name in whole.files]
            if not await prove(self.session, self.label, needed, own=()):
                raise VaultError(f"files of label {self.label!r} were removed while it was copied: copy again")
            self.here = await look_whole(self.session, self.label)
            await self._list(self.brought)

    async def _compare(self, whole: Loaded) -> tuple[dict[str, str], set[str]]:
        """The files of a snapshot to write, and the manifests of others that keep the rest."""
        files, missing, keepers = self.here.listed, set[str](), set[str]()
        row = self.here.pointer.entry(whole.snapshot_id)
        strange = {*files.parts.get(whole.snapshot_id, {}).values()} - {*whole.files}
        if strange or (row is not None and row.manifest_sha256 != whole.manifest.sha256):
            raise _taken(whole)
        for owner, names, keeper in self._groups(whole):
            there = {name for name in names if name in files.files or name in self._same}
            for name, stored in (await self.session.vault.get_many(there - self._same)).items():
                if stored is None:
                    raise _gone(whole)
                if stored.content != whole.files[name]:
                    raise _taken(whole)
            if there and keeper is None:
                if self.here.text is not None:
                    raise self._in_the_way(whole, owner)
                there = set()  # an earlier try left it, and whoever removes anything writes a pointer first
            missing |= {*names} - there
            keepers |= {keeper} if there and keeper is not None else set()
        if missing and row is not None and (await read_pointer_file(self.session, self.label))[0] != self.here.text:
            raise _gone(whole)  # it was taken out before the label was listed, perhaps, and what lacks is gone for that
        return {name: whole.files[name] for name in whole.files if name in missing}, keepers - {whole.manifest_file}

    def _groups(self, whole: Loaded) -> Iterator[tuple[str, list[str], str | None]]:
        """Files that go together, with the id that they bear, and the manifest that keeps them there."""
        state, own, manifest = self.here, whole.manifest_file, whole.manifest
        rows = state.building if state.text is not None else state.entries
        keepers = {pack: manifest_filename(self.label, row.snapshot_id) for row in reversed(rows) for pack in row.packs}
        keepers |= {pack: each.manifest_file for each, _ in self.brought.values() for pack in each.manifest.packs}
        committed = whole.snapshot_id in self.brought or any(row.snapshot_id == whole.snapshot_id for row in rows)
        committed |= state.pointer.entry(whole.snapshot_id) is not None or self._is_astray(state, whole)
        keeper = own if committed else None
        if not isinstance(manifest, ChainManifest):
            yield whole.snapshot_id, [*whole.files], keeper
            return
        for pack_id, sizes in zip(manifest.packs, manifest.pack_bytes, strict=True):
            names = [pack_filename(self.label, pack_id, seq) for seq in range(len(sizes))]
            yield pack_id, names, keepers.get(pack_id, keeper)
        yield whole.snapshot_id, [own], keeper

    @staticmethod
    def _is_astray(now: State, whole: Loaded) -> bool:
        """True if nothing but its history speaks against it, and it is too old to be under way."""
        own = whole.snapshot_id
        strange = own in now.untrusted and not now.pointer.took_out(own)
        return strange and now.listed.is_old(own, now=now.asked.now)

    async def _write(
        self, whole: Loaded, missing: Mapping[str, str], keepers: Iterable[str], *, pin: str | None
    ) -> None:
        session, label = self.session, self.label
        await self._make_way(whole)
        began = session.now()
        written: list[datetime | None] = []
        if pin is not None:  # first, so that no snapshot that comes loses its pin
            await session.vault.put(pin_filename(label, whole.snapshot_id), pin)
        for done, (name, text) in enumerate(missing.items(), 1):
            left = name in self.here.listed.files
            try:
                written.append(await session.vault.put(name, text, match=ANY if left else ABSENT))
            except Changed as error:
                raise _taken(whole) from error
            session.tell("upload", name, done, len(missing))
        wrong = await misread(session, missing)
        # Where others keep what it needs, nothing but a list that shows it beside them proves that it stays.
        if wrong is None and (keepers or took_long(session, began, written)):
            stays = await prove(session, label, [*whole.files, *keepers], own=missing)
            wrong = None if stays else f"other clients removed parts of {whole.named} while it was written"
        if wrong is not None:
            await self._withdraw(whole)
            raise VaultError(f"{wrong}: try again")

    async def _withdraw(self, whole: Loaded) -> None:
        """Remove the manifest of what others removed, perhaps before it was there, so that no part of it stays."""
        await self.session.vault.delete(whole.manifest_file)
        self.session.manifests.pop(whole.manifest_file, None)

    async def _make_way(self, whole: Loaded) -> None:
        """Let the pointer say that what is newer than it names may be there.

        A snapshot names the one that it was made upon; where that is newer than what the pointer names, and no pointer
        lists the snapshot yet, the pointer looks put back to whoever pins.
        """
        info, before = whole.manifest.info, previous_of(whole.manifest.raw)
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
                return None  # a backup under way, perhaps: the pointer is its own to write
            first, stream = self._empty and now.text is None, whole.manifest.stream
            return Move(now.follow, now.building, first=first, stream=stream, coming=whole.snapshot_id)

        await publish(self.session, self.here, change, doubted=True)
        self.here = await look_whole(self.session, self.label)

    async def _list(self, brought: Mapping[str, tuple[Loaded, Entry]], *, before: State | None = None) -> None:
        """Have the pointer list what was brought. It names the newest unless it names something newer, and goes no
        further than the one where they come from. ``before`` is the label before any of it was written.
        """
        session, origin = self.session, self.origin
        named = None if origin is None else origin.pointer.snapshot_id
        upto = [each for each in brought if named is None or id_order(each) <= id_order(named)]
        newest = max(upto or brought, key=id_order)
        # The count of writes goes on from there, so that heads keep their order for who has seen both vaults.
        generation = 0 if origin is None else origin.pointer.generation
        if origin is not None and not origin.proven and not self._is_sane(generation):
            generation = 0
        lost = dict[str, Loaded]()

        async def change(now: State) -> Move | None:
            _believed(now)
            for whole, _ in brought.values():
                if now is not before and not self._is_safe(now, whole, before):
                    await self._withdraw(whole)
                    lost[whole.snapshot_id] = whole
            if lost and now.written in lost:  # this client's own pointer, of a moment ago
                return Move(now.follow, [row for row in now.building if row.snapshot_id not in lost])
            if lost:
                return None
            if self.mirrors and now.text is None and origin is not None and self._may_stand(now, origin):
                for name, content in origin.pages.items():
                    await session.vault.put(name, content or "")
                return Move(named, (), text=origin.text)
            self.require_key(now)
            if session.signer is None and origin is not None and origin.pointer.signed:
                self._tell_unsigned()
            follow = now.follow
            if now.text is None:  # the newest that was there before
                follow = max(now.counted - brought.keys(), key=id_order, default=None)
            latest = newest if follow is None or id_order(newest) >= id_order(follow) else follow
            if latest not in brought and latest not in now.committed:
                msg = f"snapshot {latest} of label {self.label!r} may be the work of a backup under way: try again"
                raise ConflictDetected(msg, theirs=latest)
            rows = {entry.snapshot_id: entry for entry in now.building}
            rows |= {each: entry for each, (_, entry) in brought.items()}
            told = () if origin is None else origin.pointer.unmerged
            return Move(
                latest,
                rows.values(),
                above=generation,
                first=self._empty and now.text is None,
                # A history that is continued elsewhere stays the same to a witness.
                stream=brought[latest][0].manifest.stream if latest in brought else None,
                unmerged=(*now.unmerged, *(one for one in told if one.snapshot_id in brought)),
            )

        await publish(session, self.here, change, doubted=True)
        self._old = True
        for whole in lost.values():
            raise _gone(whole)

    def _is_safe(self, now: State, whole: Loaded, before: State | None) -> bool:
        """True if what was brought is still there, and nobody may be about to delete it."""
        own = whole.snapshot_id
        if own in now.committed or self._is_astray(now, whole):
            return True
        if before is not None and own in before.pointer.gone:  # nothing was left of it any more
            return all(name in now.listed.files for name in whole.files)
        return still_there(now, own, whole.files)

    def _tell_unsigned(self) -> None:
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
        """False where it may be made up: a count at its end would stay there for ever."""
        return generation < self.session.now().timestamp() + _AHEAD

    def _may_stand(self, now: State, origin: State) -> bool:
        """True if the pointer of where all that comes from says just what is here, so that it can stand as it is."""
        if origin.text is None or origin.doubt is not None or origin.problem is not None:
            return False
        theirs = read_pointer(origin.text, label=self.label, files=origin.pages)
        mine = {each: _row_of(entry) for each, (_, entry) in self.brought.items()}
        rows = {entry.snapshot_id: _row_of(entry) for entry in theirs.entries or ()}
        other = {read_head(seen).stream for seen in now.asked.seen} - {None, theirs.stream}
        try:
            self.session.trust.judge_pointer(theirs.raw)
        except UntrustedSnapshot:
            return False
        there = {*now.listed.manifests} <= mine.keys() and not {*theirs.removed} & mine.keys()
        fit = theirs.signed and theirs.snapshot_id in mine and self._is_sane(theirs.generation)
        return fit and not other and there and rows == mine

    def _in_the_way(self, whole: Loaded, owner: str) -> ConflictDetected:
        """The error of what is there, in part or as a whole, and not committed."""
        what, why = f"files that {whole.named} needs are there, and no committed snapshot needs them", "they are"
        then, hint = "once they are an hour old, prune, and try again", Hint("prune", label=self.label)
        if owner == whole.snapshot_id and whole.manifest_file in self.here.listed.files:
            what, why = f"{whole.named} is there, and no catalogue lists it", "it is"
            then, hint = "to make way, delete it", Hint("delete_snapshot", "snapshot_id", owner, label=self.label)
        msg = f"{what}: either {why} being removed, or left by a client that was interrupted; {then}"
        return ConflictDetected(msg, theirs=whole.snapshot_id, hint=hint)


def _require_fit(session: Session, whole: Loaded) -> None:
    if session.recipients is not None and not whole.manifest.info.encrypted:
        raise ConflictDetected(
            f"{whole.named} is not encrypted, and this client writes nothing in the clear: restore it and back it up, "
            "or copy it with a client that does not encrypt",
            theirs=None,
        )
    if whole.manifest.packs and not session.vault.conditional:
        raise needs_conditions(whole.named)


def needs_conditions(what: str) -> ColonyMemoryError:
    return ColonyMemoryError(
        f"{what} is of format 2, which needs a vault with conditional writes, and this one has none: rewrite its label "
        "in format 1 first"
    )


async def look_whole(session: Session, label: str) -> State:
    """All of a label, where it is listed whole and not set back, and its pointer, if it has one, is trusted."""
    state = await look(session, label, everything=True)
    require_listed(state, "bringing snapshots")
    return _believed(state)


def _believed(state: State) -> State:
    """The state, where the label was not set back and its pointer is trusted; that there is none is no hindrance."""
    if state.text is not None:
        require_believed(state)
    return state


def _row_of(entry: Entry) -> tuple[str, SnapshotInfo]:
    # A row may say that it was refused, of one whose manifest could not yet.
    info = replace(entry.info, pinned=False, pinned_until=None, head="", refused=False)
    return entry.manifest_sha256, replace(info, incomplete=few_lines(info.incomplete))


def _taken(whole: Loaded) -> ConflictDetected:
    msg = (
        f"something else is stored under the id of {whole.named}, or of a pack that it needs, so it is not written; "
        "verify tells whether the one that is there is damaged; to make way, delete that one"
    )
    return ConflictDetected(msg, theirs=whole.snapshot_id, hint=Hint("verify", label=whole.manifest.info.label))


def _gone(whole: Loaded) -> ConflictDetected:
    msg = f"another client removed {whole.named} while it was being written: try again"
    return ConflictDetected(msg, theirs=whole.snapshot_id)
