"""Whom to follow, as a table: what lies in the vault, what the client accepts, what it has seen, and what comes of it.

Nothing here needs a vault. The agent has saved four snapshots, ``s0`` to ``s3``, two hours apart, all signed with its
key and listed by a signed pointer of generation 4. Whoever holds the vault changes that.
"""

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from colony_memory._engine.judge import judge
from colony_memory._engine.label import ListedFile, Listing, read_label
from colony_memory._engine.state import Asked, State
from colony_memory._format.catalog import Entry
from colony_memory._format.pointer import Pointer, read_pointer, write_pointer
from colony_memory.exceptions import SnapshotCorrupt, UnsupportedFormat, UntrustedSnapshot, VaultError
from colony_memory.signing import Ed25519Signer, sign_manifest
from colony_memory.snapshot import build, read_manifest
from colony_memory.trust import Trust

pytest.importorskip("cryptography")

OWN, RETIRED, STRANGER = (Ed25519Signer(bytes([seed]) * 32) for seed in (1, 2, 3))
START = datetime(2026, 6, 1, tzinfo=timezone.utc)
STREAM, OTHER = "a" * 16, "b" * 16
POINTER = "cmem.default.latest.json"


def an_id(number):
    return f"{START + timedelta(hours=2 * number):%Y%m%dT%H%M%S}000000Z-{number:06x}"


class Scene:
    def __init__(self):
        self.files, self.times, self.complete, self.sizes, self.timed = {}, {}, True, True, True
        for number in range(4):
            self.save(number)
        self.point(3)
        self.seen = self.head()

    # --- what honest clients do, and whoever holds the vault too ---

    def save(self, number, *, by=OWN, stream=STREAM, previous=None, at=None, text=None):
        if previous is None and number and self.manifest_name(number - 1) in self.files:
            previous = number - 1
        if previous is not None:
            raw = self.files[self.manifest_name(previous)]
            manifest = read_manifest(raw, label="default", snapshot_id=an_id(previous))
            previous = {"snapshot_id": an_id(previous), "manifest_sha256": manifest.sha256}
        built = build(
            {"m": text or f"version {number}"},
            label="default",
            snapshot_id=an_id(number),
            created_at="2026-06-01T00:00:00Z",
            signer=by,
            previous=previous,
            stream=stream,
        )
        for name, text in built.files.items():
            self.put(name, text, at=number if at is None else at)

    def put(self, name, text, *, at=3.0):
        self.files[name] = text
        self.times[name] = START + timedelta(hours=2 * at)

    def entries(self, numbers):
        for number in numbers:
            text = self.files[self.manifest_name(number)]
            info = read_manifest(text, label="default", snapshot_id=an_id(number)).info
            size = sum(len(self.files[name]) for name in self.names(number))
            digest = read_manifest(text, label="default", snapshot_id=an_id(number)).sha256
            yield Entry(replace(info, stored_bytes=size), digest)

    def point(self, number, *, by=OWN, generation=None, rows=None, stream=STREAM, removed=(), back=None, at=None):
        """A pointer to a snapshot, to nothing where that is None, listing ``rows``, by default all up to it."""
        named = None if number is None else an_id(number)
        rows = range((-1 if number is None else number) + 1) if rows is None else rows
        pointer = Pointer(
            "default",
            named,
            "2026-06-01T00:00:00Z",
            (number or 0) + 1 if generation is None else generation,
            stream,
            tuple(self.entries(rows)),
            tuple(map(an_id, removed)),
            None if back is None else an_id(back),
        )
        self.put(POINTER, write_pointer(pointer, signer=by), at=(number or 3) if at is None else at)

    def head(self):
        pointer = read_pointer(self.files[POINTER], label="default")
        return f"{pointer.head}:{pointer.stream}"

    def remove(self, *numbers):
        for number in numbers:
            for name in self.names(number):
                del self.files[name]

    def edit(self, name, **fields):
        raw = {**json.loads(self.files[name]), **fields}
        self.files[name] = json.dumps({key: value for key, value in raw.items() if value is not None})

    def bare(self, number):
        self.point(number)
        self.edit(POINTER, generation=None, stream=None, catalog=None, signature=None)

    def as_0_1_1(self):
        """Manifests as 0.1.1 signs them: nothing in them says that there was a signed pointer."""
        for number in range(4):
            name = self.manifest_name(number)
            self.edit(name, previous=None, stream=None, signature=None)
            self.edit(name, signature=sign_manifest(json.loads(self.files[name]), OWN))

    def manifest_name(self, number):
        return f"cmem.default.{an_id(number)}.manifest.json"

    def names(self, number):
        return [name for name in self.files if an_id(number) in name]

    # --- what a client makes of it ---

    def look(self, trust, *seen, everything=False, listed=False, read=(), **options):
        """Read what the decision wants, as a client would; ``read`` is known before."""
        now = max(self.times.values(), default=START)
        asked = Asked("default", trust, seen, now, everything, **options)
        listing = Listing("cmem.default.", {n: self.listed(n) for n in self.files}, self.complete)
        files = read_label(listing, "default") if everything or listed else None
        manifests = dict(read)
        blank = State(asked, self.files.get(POINTER), Pointer("default", None), files=files, manifests=manifests)
        decision = judge(blank)
        for _ in range(20):
            if decision.wants is None:
                gone = decision.follow is not None and f"cmem.default.{decision.follow}.manifest.json" not in self.files
                # A restore that does not find what the pointer names lists what there is.
                return self.look(trust, *seen, listed=True, **options) if gone and not listed else decision
            if decision.wants.listing:
                blank = replace(blank, files=read_label(listing, "default"))
            for each in decision.wants.manifests:
                manifests[each] = self.read(each, trust, verify=asked.verify)
            decision = judge(blank)
        raise AssertionError("it never comes to a decision")

    def listed(self, name):
        return ListedFile(len(self.files[name]) if self.sizes else None, self.times[name] if self.timed else None)

    def read(self, snapshot_id, trust, *, verify=True):
        text = self.files.get(f"cmem.default.{snapshot_id}.manifest.json")
        try:
            manifest = None if text is None else read_manifest(text, label="default", snapshot_id=snapshot_id)
            if manifest is not None:
                trust.judge(manifest.raw, verify=verify)
        except (SnapshotCorrupt, UntrustedSnapshot) as error:
            return error
        return manifest


PINNED = Trust({OWN.did_key: None}, require_signature=True)
#: The columns: what the client accepts, and whether it has seen the head of s3.
POLICIES = {
    "pins nobody": (Trust(), False),
    "pins": (PINNED, False),
    "pins, has seen s3": (PINNED, True),
    "accepts pointers of 0.1.1": (replace(PINNED, accept_legacy_pointer=True), False),
    "the same, has seen s3": (replace(PINNED, accept_legacy_pointer=True), True),
    "takes unsigned snapshots": (Trust({OWN.did_key: None}), False),
}


def merged(s):
    s.save(4, stream=OTHER)
    s.save(5, stream=OTHER)


def cut(s):
    del s.files[POINTER]
    s.complete = False


#: What is done to the vault, and what each client makes of it; one cell stands for all of them.
ROWS = {
    "As the agent left it": ("s3", lambda s: None),
    "Every file is gone": ("none | none | rollback | none | rollback | none", lambda s: s.files.clear()),
    "The pointer is gone, or cannot be read": (
        "s3, warned | untrusted | untrusted | s3, warned | rollback | s3, warned",
        lambda s: s.files.update({POINTER: s.files[POINTER][9:]}),
    ),
    "The pointer has no signature; where 0.1.1 writes too, it has no generation either": (
        "s3 | untrusted | untrusted | s3 | s3, warned | s3",
        lambda s: s.edit(POINTER, signature=None),
    ),
    "The pointer is signed by a stranger and names an older snapshot": (
        "s2 | untrusted | untrusted | s3, warned | s3, warned | untrusted",
        lambda s: s.point(2, by=STRANGER, generation=99),
    ),
    "An older signed pointer is put back, newer snapshots are there": (
        "s1 | rollback | rollback | rollback | rollback | rollback",
        lambda s: s.point(1),
    ),
    "The same, one step back only, which a crash leaves as well": (
        "s2 | s2, warned | rollback | s2, warned | rollback | s2, warned",
        lambda s: s.point(2),
    ),
    "The whole vault is put back": ("s1 | s1 | rollback | s1 | rollback | s1", lambda s: (s.point(1), s.remove(2, 3))),
    "The newest snapshot is removed": (
        "s2, warned | s2, warned | rollback | s2, warned | rollback | s2, warned",
        lambda s: s.remove(3),
    ),
    "Every snapshot is removed, the pointer is left": (
        "damaged | damaged | rollback | damaged | rollback | damaged",
        lambda s: s.remove(0, 1, 2, 3),
    ),
    "An unsigned pointer that names nothing, over signed snapshots": (
        "none, warned | untrusted | untrusted | s3, warned | rollback | none, warned",
        lambda s: s.point(None, by=None, generation=99, rows=()),
    ),
    # It is of another generation than 0.1.1 could write, so it does not excuse a head that was seen.
    "An unsigned pointer that names nothing, and nothing else": (
        "none | none | rollback | none | rollback | none",
        lambda s: (s.files.clear(), s.point(None, by=None, generation=2, rows=())),
    ),
    "A signed pointer that named nothing is put back, over the one snapshot that was saved since": (
        "none, warned | none, warned | rollback | none, warned | rollback | none, warned",
        lambda s: (s.remove(0, 1, 2, 3), s.save(3), s.point(None, generation=3)),
    ),
    "The same, over two snapshots or more": (
        "none, warned | rollback | rollback | rollback | rollback | rollback",
        lambda s: s.point(None, generation=1),
    ),
    "The whole vault is another one of the same key": (
        "s3 | s3 | rollback | s3 | rollback | s3",
        lambda s: ([s.save(number, stream=OTHER, text="staging") for number in range(4)], s.point(3, stream=OTHER)),
    ),
    "Newer snapshots of another vault of the same key are put beside, not its pointer": ("s3", merged),
    "The same, with a pointer as 0.1.1 writes it to the newest of them": (
        "s5 | untrusted | untrusted | s5 | s3, warned | s5",
        lambda s: (merged(s), s.bare(5)),
    ),
    "A snapshot that nobody signed is put there, and an unsigned pointer to it": (
        "s4 | untrusted | untrusted | s3, warned | s3, warned | s4",
        lambda s: (s.save(4, by=None), s.point(4, by=None)),
    ),
    "A snapshot by a stranger is put there, and a pointer by the same hand": (
        "s4 | untrusted | untrusted | s3, warned | s3, warned | untrusted",
        lambda s: (s.save(4, by=STRANGER), s.point(4, by=STRANGER)),
    ),
    "The newest manifest is another one than the signed catalogue lists": ("s3", lambda s: s.save(3, text="replaced")),
    "The signed catalogue lists a snapshot that is newer than the latest: another writer's, in conflict": (
        "s3",
        lambda s: (s.save(4, previous=2), s.point(3, rows=range(5), generation=5)),
    ),
    "A backup died before it moved the pointer": (
        "s3 | s3, warned | s3, warned | s3, warned | s3, warned | s3, warned",
        lambda s: s.save(4),
    ),
    "0.1.1 wrote everything until yesterday": (
        "s3 | s3, warned | rollback | s3 | s3, warned | s3",
        lambda s: (s.as_0_1_1(), s.bare(3)),
    ),
    "The newest snapshot is of a newer format, and the pointer is gone": (
        "damaged | untrusted | untrusted | damaged | rollback | damaged",
        lambda s: (s.edit(s.manifest_name(3), format="colony-memory/9"), s.files.pop(POINTER)),
    ),
    "The pointer is gone and the vault's list is cut": (
        "refused | untrusted | untrusted | refused | rollback | refused",
        cut,
    ),
}


# --- the same of everything that is there ---


ROTATED = Trust({RETIRED.did_key: an_id(1), OWN.did_key: None}, require_signature=True)


def listing(change, committed, waiting="", untrusted="", told=None, *, trust=PINNED, seen=False):
    """One row: which snapshots are restore points, may be under way, are not trusted; and a word of what is told."""
    return change, trust, seen, committed, waiting, untrusted, told


def a_retired_key_vouches_for_nothing_later(s):
    """It signs a pointer to what it may, whose catalogue says that what it forged is by the new key."""
    s.save(4, by=RETIRED)
    rows = [*s.entries(range(4)), *(replace(e, info=replace(e.info, issuer=OWN.did_key)) for e in s.entries([4]))]
    pointer = Pointer("default", an_id(1), "x", 99, STREAM, tuple(rows), (), None)
    for number in (2, 3):
        s.edit(s.manifest_name(number), previous=None, signature=None)
        s.edit(s.manifest_name(number), signature=sign_manifest(json.loads(s.files[s.manifest_name(number)]), OWN))
    s.put(POINTER, write_pointer(pointer, signer=RETIRED), at=9)


def an_unsigned_catalogue_that_says_who_signed(s):
    s.save(4, by=STRANGER)
    rows = [*s.entries(range(4)), *(replace(e, info=replace(e.info, issuer=OWN.did_key)) for e in s.entries([4]))]
    s.put(POINTER, write_pointer(Pointer("default", an_id(3), "x", 9, STREAM, tuple(rows), (), None)))


LISTS = {
    "everything_is_listed": listing(lambda s: None, "0 1 2 3"),
    "a_young_one_beside": listing(lambda s: s.save(4, at=3.1), "0 1 2 3", "4", "", "did not finish"),
    "one_that_did_not_finish_an_hour_ago": listing(
        lambda s: (s.save(4), s.point(3, at=6)), "0 1 2 3 4", "", "", "did not finish"
    ),
    "a_removed_one_put_back": listing(
        lambda s: s.point(3, rows=(0, 2, 3), generation=6), "0 1 2 3", "", "", "removed and put back"
    ),
    "one_that_is_being_removed": listing(lambda s: s.point(3, rows=(0, 2, 3), removed=(1,), generation=5), "0 2 3"),
    "the_latest_was_deleted_and_its_files_put_back": listing(
        lambda s: s.point(2, rows=(0, 1, 2), back=3, generation=5), "0 1 2", told="put back"
    ),
    "another_history": listing(lambda s: s.save(4, stream=OTHER), "0 1 2 3", "", "4", None),
    "another_history_that_the_owner_imported": listing(
        lambda s: (s.save(4, stream=OTHER), s.point(4, generation=5)), "0 1 2 3 4", "", "", None
    ),
    "another_history_where_only_what_was_seen_tells": listing(
        lambda s: (s.save(4, stream=OTHER), s.bare(3)),
        "0 1 2 3",
        "",
        "4",
        "has no generation",
        seen=True,
        trust=replace(PINNED, accept_legacy_pointer=True),
    ),
    "a_stranger_and_nobody": listing(
        lambda s: (s.save(4, by=STRANGER), s.save(5, by=None)), "0 1 2 3", "", "4 5", None
    ),
    "a_retired_key_vouches_for_nothing_later": listing(
        a_retired_key_vouches_for_nothing_later, "0 1 2 3", "", "4", "did not finish", trust=ROTATED
    ),
    "an_unsigned_catalogue_that_says_who_signed": listing(
        an_unsigned_catalogue_that_says_who_signed, "0 1 2 3", "", "4", None, trust=Trust({OWN.did_key: None})
    ),
    "who_pins_nobody_takes_the_catalogue_as_it_is": listing(
        lambda s: (s.save(4, by=None), s.point(4, by=None)), "0 1 2 3 4", trust=Trust()
    ),
    "a_young_one_of_another_beginning_under_a_pointer_that_lists_nothing": listing(
        lambda s: (s.save(4, stream=OTHER, at=3.1), s.bare(3)),
        "0 1 2 3 4",
        "",
        "",
        "the pointer of label",
        trust=replace(PINNED, accept_legacy_pointer=True),
    ),
}


@pytest.mark.parametrize("name", LISTS)
def test_what_counts_as_a_restore_point(name):
    change, trust, seen, committed, waiting, untrusted, told = LISTS[name]
    scene = Scene()
    change(scene)
    decision = scene.look(trust, *[scene.seen] * seen, everything=True)
    assert numbers(decision.committed) == committed
    assert numbers(decision.waiting) == waiting
    assert numbers(decision.untrusted) == untrusted
    said = " ".join(map(str, decision.warnings))
    assert (told in said) if told else not said
    assert {entry.snapshot_id for entry in decision.building} == decision.committed
    assert {info.snapshot_id for info in decision.summaries} == decision.committed | decision.waiting


def numbers(ids):
    return " ".join(sorted(str(number) for number in range(9) if an_id(number) in ids))


def test_a_manifest_that_the_signed_catalogue_does_not_mean_is_refused():
    scene = Scene()
    scene.save(3, text="replaced")
    read = {an_id(3): scene.read(an_id(3), PINNED)}
    decision = scene.look(PINNED, listed=True, read=read)
    assert numbers(decision.untrusted) == "3"
    assert decision.refusal is decision.untrusted[an_id(3)]
    assert scene.look(Trust(), listed=True, read=read).refusal is None


@pytest.mark.parametrize("trust", [PINNED, Trust()])
@pytest.mark.parametrize("way", ["missing", "short", "longer", "no sizes"])
def test_files_are_judged_by_what_the_list_says(way, trust):
    scene = Scene()
    part = next(name for name in scene.names(2) if ".p0." in name)
    scene.files = {
        "missing": {name: text for name, text in scene.files.items() if name != part},
        "short": {**scene.files, part: scene.files[part][:-9]},
        "longer": {**scene.files, part: scene.files[part] + " "},
        "no sizes": scene.files,
    }[way]
    scene.sizes = way != "no sizes"
    decision = scene.look(trust, everything=True)
    # A catalogue that nobody proved may give any size.
    whole = way == "no sizes" or (way == "longer" and trust is not PINNED)
    assert numbers(decision.committed) == ("0 1 2 3" if whole else "0 1 3")
    assert len(decision.broken) == (not whole)
    # What the pointer lists of it is known all the same.
    assert decision.entry(an_id(2)).snapshot_id == an_id(2)
    assert decision.entry(an_id(7)) is decision.entry(None) is None


def test_a_list_without_times_goes_by_the_ids():
    scene = Scene()
    scene.save(4)
    scene.timed = False
    assert numbers(scene.look(PINNED, everything=True).waiting) == "4"


# --- the table ---


def cells_of(expected):
    cells = [cell.strip() for cell in expected.split("|")]
    return cells * len(POLICIES) if len(cells) == 1 else cells


def cell(decision):
    """What restore makes of a decision."""
    if decision.rollback is not None:
        return "rollback"
    kinds = {
        UntrustedSnapshot: "untrusted",
        SnapshotCorrupt: "damaged",
        UnsupportedFormat: "damaged",
        VaultError: "refused",
    }
    if decision.refusal is not None:
        return kinds[type(decision.refusal)]
    names = {an_id(number): f"s{number}" for number in range(9)}
    return names.get(decision.follow, "none") + (", warned" if decision.warnings else "")


@pytest.mark.parametrize("what", ROWS)
def test_whom_to_follow(what):
    expected, change = ROWS[what]
    scene = Scene()
    change(scene)
    for (policy, (trust, seen)), right in zip(POLICIES.items(), cells_of(expected), strict=True):
        one, all_of_it = (scene.look(trust, *[scene.seen] * seen, everything=each) for each in (False, True))
        assert cell(one) == right, policy
        # A list, a prune and a restore speak of the same one, and are refused alike.
        assert cell(all_of_it).removesuffix(", warned") == right.removesuffix(", warned"), policy
        assert (one.doubt is None) == (all_of_it.doubt is None), policy


def test_the_page_shows_this_table():
    page = (Path(__file__).parents[2] / "docs" / "threat-model.md").read_text(encoding="utf-8")
    shown = {
        cells[0]: cells[1:]
        for line in page.splitlines()
        if len(cells := line.strip("| ").split(" | ")) == 1 + len(POLICIES)
    }
    assert {what: shown.get(what) for what in ROWS} == {
        what: cells_of(expected) for what, (expected, _) in ROWS.items()
    }
