"""What whoever holds the vault can do to a client that pins its signer: every attack, every policy, and what came out.

The holder reads, writes and deletes any file, remembers every state that the vault was ever in, and has keys of its
own. It does not have the agent's key, nor its witness.
"""

import base64
import copy
import itertools
import json
import warnings

import pytest
from faces import DictWitness, PlainVault

from colony_memory import (
    ColonyMemory,
    ColonyMemoryError,
    ColonyMemoryWarning,
    RollbackDetected,
    SnapshotNotFound,
    UntrustedSnapshot,
)
from colony_memory._format.pointer import read_pointer, write_pointer
from colony_memory.signing import Ed25519Signer, sign_manifest, verify_manifest
from colony_memory.snapshot import build
from colony_memory.testing import FakeVault

pytest.importorskip("cryptography")

OWN, RETIRED, STRANGER = (Ed25519Signer(bytes([seed]) * 32) for seed in (1, 2, 3))
POINTER = "cmem.default.latest.json"
FUTURE = "20990101T000000000000Z-ffffff"
LONG_AGO = "20200101T000000000000Z-000000"
STEP = 7200.0


#: Histories by how they were made: each is made once, and copied.
_MADE = {}


class Held:
    """A vault with five versions of a memory, v0 to v4, and its holder's recollections."""

    def __init__(self, *, versions=5, signer=OWN, kind="full"):
        self.clock = 1.8e9
        self.fake = FakeVault(operations_per_hour=None, clock=lambda: self.clock)
        self.backend = self.fake if kind == "full" else PlainVault(self.fake)
        self.files = self.fake.files
        self.notes = DictWitness()
        self.ids, self.pointers, self.states = [], [], []
        made = _MADE.get((versions, signer))
        if made is None:
            for number in range(versions):
                self.save(f"v{number}", signer=signer)
            made = _MADE[versions, signer] = copy.copy(self)
            self.ids, self.pointers, self.states = [], [], []
            made.files, made.known, made.heads = dict(self.files), dict(self.fake._known), dict(self.notes.heads)
        self.files.update(made.files)
        self.fake._known.update(made.known)
        self.notes.heads.update(made.heads)
        self.clock, self.ids = made.clock, list(made.ids)
        self.pointers, self.states = list(made.pointers), list(made.states)

    def save(self, text, **options):
        self.clock += STEP
        mem = ColonyMemory(backend=self.backend, witness=self.notes, **options)
        self.ids.append(mem.backup({"m": text}).snapshot_id)
        self.pointers.append(self.files[POINTER])
        self.states.append(dict(self.files))

    def client(self, policy="signer", **more):
        options = {**POLICIES[policy], **more}
        if options.pop("notes", False):
            options["witness"] = self.notes
        return ColonyMemory(backend=self.backend, **options)

    def manifest(self, number, label="default"):
        return f"cmem.{label}.{self.ids[number]}.manifest.json"

    def part(self, number):
        return f"cmem.default.{self.ids[number]}.p0.json"

    def edit(self, name, change):
        raw = json.loads(self.files[name])
        change(raw)
        self.files[name] = json.dumps(raw)

    def sign(self, name, by):
        self.edit(name, lambda raw: raw.pop("signature", None))
        self.edit(name, lambda raw: raw.update(signature=sign_manifest(raw, by)))

    def remove(self, *numbers):
        for number in numbers:
            del self.files[self.manifest(number)]
            del self.files[self.part(number)]

    def put(self, text, *, snapshot_id, by=None, previous=None):
        built = build(
            {"m": text}, label="default", snapshot_id=snapshot_id, created_at="x", signer=by, previous=previous
        )
        self.files.update(built.files)

    def point(self, snapshot_id, *, by=None, generation=None):
        """A pointer to a snapshot with the genuine catalogue, signed by a key of the holder's or by nobody."""

        def change(raw):
            raw.pop("signature", None)
            raw.update(snapshot_id=snapshot_id, manifest_file=f"cmem.default.{snapshot_id}.manifest.json")
            if generation is not None:
                raw["generation"] = generation

        self.edit(POINTER, change)
        if by is not None:
            self.sign(POINTER, by)


POLICIES = {
    "signer": {"signer": OWN},
    "issuers": {"trusted_issuers": [OWN.did_key]},
    "rotated": {"signer": OWN, "trusted_issuers": {RETIRED.did_key: LONG_AGO, OWN.did_key: None}},
    "witness": {"signer": OWN, "notes": True},
    "legacy": {"signer": OWN, "accept_legacy_pointer": True},
    "lenient": {"signer": OWN, "require_signature": False},
}


def strip_pointer(held):
    held.edit(POINTER, lambda raw: raw.pop("signature"))


def manifest_signature_on_the_pointer(held):
    given = json.loads(held.files[held.manifest(4)])["signature"]
    held.edit(POINTER, lambda raw: raw.update(signature=given))


def pointer_signature_on_a_manifest(held):
    given = json.loads(held.files[POINTER])["signature"]
    held.edit(held.manifest(4), lambda raw: raw.update(signature=given))


def put_pointer_back(held):
    held.files[POINTER] = held.pointers[2]


def put_vault_back(held):
    held.files.clear()
    held.files.update(held.states[2])


def raise_generation(held):
    held.point(held.ids[2], generation=2**53 - 1)


def replace_catalogue(held):
    catalog = json.loads(held.pointers[1])["catalog"]
    held.edit(POINTER, lambda raw: raw.update(catalog=catalog))


def pointer_of_another_label(held):
    mem = ColonyMemory(backend=held.backend, signer=OWN)
    mem.backup({"m": "other"}, label="other")
    held.files[POINTER] = held.files["cmem.other.latest.json"]


def move_from_another_label(held):
    mem = ColonyMemory(backend=held.backend, signer=OWN)
    other = mem.backup({"m": "other"}, label="other").snapshot_id
    for name, kind in ((held.manifest(4), "manifest"), (held.part(4), "p0")):
        held.files[name] = held.files[f"cmem.other.{other}.{kind}.json"]


def swap_parts(held):
    one, two = held.part(3), held.part(4)
    held.files[one], held.files[two] = (
        held.files[two].replace(held.ids[4], held.ids[3]),
        held.files[one].replace(held.ids[3], held.ids[4]),
    )


U, R, C, F = "UntrustedSnapshot", "RollbackDetected", "SnapshotCorrupt", "UnsupportedFormat"
#: What restore gives under each policy, in the order of POLICIES: the text, with ``!`` where there was a warning, or
#: the error, one word standing for every policy; and what the holder does to signatures, pointer and snapshots for it.
ATTACKS = {
    "nothing": ("v4", lambda held: None),
    "strip_pointer": (f"{U} {U} {U} {U} v4 v4", strip_pointer),
    "null_pointer_signature": (
        f"{U} {U} {U} {U} v4 v4",
        lambda held: held.edit(POINTER, lambda raw: raw.update(signature=None)),
    ),
    "strip_newest_manifest": (U, lambda held: held.edit(held.manifest(4), lambda raw: raw.pop("signature"))),
    # Who does not require signatures is told nothing: nothing else is wrong.
    "strip_everything": (
        f"{U} {U} {U} {U} {U} v4",
        lambda held: (
            strip_pointer(held),
            [held.edit(held.manifest(number), lambda raw: raw.pop("signature")) for number in range(5)],
        ),
    ),
    # What is left looks like the first day after 0.1.1.
    "strip_all_but_the_first": (
        f"v0! v0! v0! {R} v0! v4",
        lambda held: (
            strip_pointer(held),
            [held.edit(held.manifest(number), lambda raw: raw.pop("signature")) for number in range(1, 5)],
        ),
    ),
    "sign_everything_anew": (
        U,
        lambda held: (
            [held.sign(held.manifest(number), STRANGER) for number in range(5)],
            held.sign(POINTER, STRANGER),
        ),
    ),
    "replace_and_sign_anew": (
        f"{U} {U} {U} {U} v3! {U}",
        lambda held: (held.put("forged", snapshot_id=held.ids[4], by=STRANGER), held.sign(POINTER, STRANGER)),
    ),
    "sign_the_pointer_anew": (
        f"{U} {U} {U} {U} v4! {U}",
        lambda held: held.point(held.ids[2], by=STRANGER, generation=10**9),
    ),
    "replace_and_sign_nothing": (
        f"{U} {U} {U} {U} v3! forged",
        lambda held: (held.put("forged", snapshot_id=held.ids[4]), strip_pointer(held)),
    ),
    "manifest_signature_on_the_pointer": (f"{U} {U} {U} {U} v4 {U}", manifest_signature_on_the_pointer),
    "pointer_signature_on_a_manifest": (U, pointer_signature_on_a_manifest),
    "pointer_in_place_of_a_manifest": (F, lambda held: held.files.update({held.manifest(4): held.files[POINTER]})),
    "manifest_in_place_of_the_pointer": (
        f"{U} {U} {U} {U} v4! v4!",
        lambda held: held.files.update({POINTER: held.files[held.manifest(4)]}),
    ),
    "delete_pointer": (f"{U} {U} {U} {U} v4! v4!", lambda held: held.files.pop(POINTER)),
    "garble_pointer": (
        f"{U} {U} {U} {U} v4! v4!",
        lambda held: held.files.update({POINTER: held.files[POINTER][:-40]}),
    ),
    "put_pointer_back": (R, put_pointer_back),
    # A backup that died before it moved the pointer looks the same.
    "put_pointer_back_by_one": (
        f"v3! v3! v3! {R} v3! v3!",
        lambda held: held.files.update({POINTER: held.pointers[3]}),
    ),
    # A state that the vault was in: only a memory outside of it tells.
    "put_pointer_back_and_delete": (
        f"v2 v2 v2 {R} v2 v2",
        lambda held: (held.files.update({POINTER: held.pointers[2]}), held.remove(3, 4)),
    ),
    "put_vault_back": (f"v2 v2 v2 {R} v2 v2", put_vault_back),
    "bend_pointer": (
        f"{U} {U} {U} {U} v4! {U}",
        lambda held: held.edit(
            POINTER, lambda raw: raw.update(snapshot_id=held.ids[2], manifest_file=held.manifest(2))
        ),
    ),
    "point_back_unsigned": (f"{U} {U} {U} {U} v2 v2", lambda held: (held.point(held.ids[2]), held.remove(3, 4))),
    "point_back_as_0_1_1": (
        f"{U} {U} {U} {U} v2 v2",
        lambda held: (
            held.point(held.ids[2]),
            held.edit(POINTER, lambda raw: [raw.pop(key, None) for key in ("generation", "stream", "catalog")]),
            held.remove(3, 4),
        ),
    ),
    "raise_generation": (f"{U} {U} {U} {U} v4! v2", raise_generation),
    "replace_catalogue": (f"{U} {U} {U} {U} v4 {U}", replace_catalogue),
    "pointer_of_another_label": (f"{U} {U} {U} {U} v4! v4!", pointer_of_another_label),
    "relabelled_pointer_of_another_label": (
        f"{U} {U} {U} {U} v4! {U}",
        lambda held: (
            pointer_of_another_label(held),
            held.edit(POINTER, lambda raw: raw.update(label="default")),
            held.edit(POINTER, lambda raw: raw.update(manifest_file=raw["manifest_file"].replace("other", "default"))),
        ),
    ),
    "delete_newest": (f"v3! v3! v3! {R} v3! v3!", lambda held: held.remove(4)),
    "delete_newest_two": (f"v2! v2! v2! {R} v2! v2!", lambda held: held.remove(3, 4)),
    "delete_middle": ("v4", lambda held: held.remove(2)),
    "delete_all_but_the_pointer": (f"{C} {C} {C} {R} {C} {C}", lambda held: held.remove(0, 1, 2, 3, 4)),
    "delete_all": (f"none none none {R} none none", lambda held: held.files.clear()),
    "keep_the_first_alone": (
        f"v0! v0! v0! {R} v0! v0!",
        lambda held: (held.remove(1, 2, 3, 4), held.files.pop(POINTER)),
    ),
    "move_an_older_one_over_the_newest": (
        C,
        lambda held: [held.files.update({name(4): held.files[name(2)]}) for name in (held.manifest, held.part)],
    ),
    "move_and_rename": (
        U,
        lambda held: [
            held.files.update({name(4): held.files[name(2)].replace(held.ids[2], held.ids[4])})
            for name in (held.manifest, held.part)
        ],
    ),
    "move_from_another_label": (C, move_from_another_label),
    "swap_parts": (C, swap_parts),
    "edit_part": (
        C,
        lambda held: held.edit(held.part(4), lambda raw: raw.update(b64=base64.b64encode(b"forged").decode())),
    ),
    "edit_manifest": (
        U,
        lambda held: held.edit(held.manifest(4), lambda raw: raw.update(created_at="2020-01-01T00:00:00Z")),
    ),
    "claim_a_newer_format": (
        F,
        lambda held: held.edit(held.manifest(4), lambda raw: raw.update(format="colony-memory/9")),
    ),
    "forge_a_future_one": ("v4", lambda held: held.put("forged", snapshot_id=FUTURE, by=STRANGER)),
    "forge_a_future_one_and_delete_the_pointer": (
        f"{U} {U} {U} {U} v4! v4!",
        lambda held: (held.put("forged", snapshot_id=FUTURE, by=STRANGER), held.files.pop(POINTER)),
    ),
    "forge_a_future_one_and_point_to_it": (
        f"{U} {U} {U} {U} v4! forged",
        lambda held: (held.put("forged", snapshot_id=FUTURE), held.point(FUTURE)),
    ),
    "fill_with_junk": (
        "v4",
        lambda held: [
            held.files.update(
                {f"cmem.default.2099010{number % 9 + 1}T0000{number:02}000000Z-ffffff.manifest.json": "[" * number}
            )
            for number in range(40)
        ],
    ),
}
#: Where verify() holds though something was done.
PASSED_BY = {
    "nothing": "signer issuers rotated witness legacy lenient",
    "strip_pointer": "legacy lenient",
    "null_pointer_signature": "legacy lenient",
    "put_pointer_back_by_one": "signer issuers rotated legacy lenient",
    "put_pointer_back_and_delete": "signer issuers rotated legacy lenient",
    "put_vault_back": "signer issuers rotated legacy lenient",
    "point_back_unsigned": "legacy",
    "point_back_as_0_1_1": "legacy lenient",
    "forge_a_future_one_and_point_to_it": "lenient",
}
#: Part of every message: what the reader of it can do.
ADVICE = ("restore", "back it up", "Put back", "trust it too", "have to be accepted", "require_signature", "newer")


def expected(name, policy):
    words = ATTACKS[name][0].split()
    return words[0] if len(words) == 1 else words[list(POLICIES).index(policy)]


def outcome(restore):
    """What came out, in the words of ATTACKS, and the error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = restore()["m"]
        except SnapshotNotFound as error:
            return "none", error
        except ColonyMemoryError as error:
            return type(error).__name__, error
    return f"{found}!" if caught else found, None


def quietly(verb):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        return verb()


@pytest.mark.parametrize("name", ATTACKS)
def test_what_restore_gives_and_verify_says(name):
    given, holding = {}, []
    for policy in POLICIES:
        held = Held()
        ATTACKS[name][1](held)
        given[policy], error = outcome(held.client(policy).restore)
        if given[policy] in (U, R):
            assert "'default'" in str(error)
            assert any(advice in str(error) for advice in ADVICE), error
        report = held.client(policy).verify()
        if report:
            holding.append(policy)
        elif report.snapshots:
            assert report.problem or report.forged or report.removed or not all(report.snapshots)
    assert given == {policy: expected(name, policy) for policy in POLICIES}
    assert holding == PASSED_BY.get(name, "").split()


@pytest.mark.parametrize("policy", ["signer", "witness"])
@pytest.mark.parametrize("name", ATTACKS)
def test_latest_tells_no_more_than_restore(name, policy):
    """It names the snapshot that restore gives, and refuses where restore does, as far as a manifest shows."""
    held = Held()
    ATTACKS[name][1](held)

    def latest():
        info = held.client(policy).latest()
        if info is None:
            raise SnapshotNotFound("none")
        return {"m": f"v{held.ids.index(info.snapshot_id)}"}

    found, _ = outcome(latest)
    if name in ("swap_parts", "edit_part"):
        assert found == "v4"
    elif found != expected(name, policy):
        assert {found, expected(name, policy)} == {U, R}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_snapshot_by_its_id_is_the_genuine_one_or_none(name):
    held = Held()
    ATTACKS[name][1](held)
    for number, snapshot_id in enumerate([*held.ids, FUTURE]):
        found, _ = outcome(lambda each=snapshot_id: held.client().restore(snapshot_id=each))
        assert found in (f"v{number}", "none", U, C, F)


# --- what a client does in the middle of it ---


def change(held, verb, policy):
    """A verb that writes, by a client that has just started; what it raised."""
    mem = held.client(policy)
    run = {
        "backup": lambda: mem.backup({"m": "new"}),
        "backup the same": lambda: mem.backup({"m": "v2"}),
        "backup keeping one": lambda: mem.backup({"m": "new"}, prune_keep=1),
        "prune": lambda: mem.prune(label="default", keep=1),
        "delete the first": lambda: mem.delete_snapshot(label="default", snapshot_id=held.ids[0]),
        "delete the third": lambda: mem.delete_snapshot(label="default", snapshot_id=held.ids[2]),
        "delete the fourth": lambda: mem.delete_snapshot(label="default", snapshot_id=held.ids[3]),
        "delete the last": lambda: mem.delete_snapshot(label="default", snapshot_id=held.ids[4]),
    }[verb]
    return outcome(lambda: {"m": str(run())})


def genuine(held):
    """Numbers of the snapshots that are there as they were written."""
    return [
        number
        for number in range(5)
        if all(held.files.get(name) == held.states[4][name] for name in (held.manifest(number), held.part(number)))
    ]


VERBS = ["backup", "backup the same", "backup keeping one", "prune"]


@pytest.mark.parametrize(
    ("name", "verb", "policy"),
    [
        # Each verb under each policy, and after each attack, in the quick set; every three of them beside it.
        pytest.param(name, verb, policy, marks=[pytest.mark.exhaustive] if (row + column + number) % 2 else [])
        for row, name in enumerate(ATTACKS)
        for column, verb in enumerate(VERBS)
        for number, policy in enumerate(["signer", "witness"])
    ],
)
def test_no_verb_loses_the_newest_or_signs_what_the_holder_chose(name, verb, policy):
    held = Held()
    ATTACKS[name][1](held)
    there, before = genuine(held), held.files.get(POINTER)
    found_before, _ = outcome(held.client(policy).restore)
    told, _ = change(held, verb, policy)
    if there and verb != "backup keeping one":
        assert there[-1] in genuine(held)
    if verb in ("backup", "backup the same"):
        assert genuine(held) == there
    found, _ = outcome(held.client(policy).restore)
    if verb.startswith("backup"):
        # The memory of the agent is saved whatever was done to the older ones.
        assert found in ("v2" if verb == "backup the same" else "new", found_before)
    elif found != found_before:
        # What was refused or warned of is silent from now on only where the verb itself told of it.
        assert told.endswith("!"), (found_before, told, found)
    if held.files.get(POINTER) != before:
        assert verify_manifest(json.loads(held.files[POINTER])) == OWN.did_key


@pytest.mark.parametrize("kind", ["full", "plain"])
@pytest.mark.parametrize(
    ("name", "verb"),
    [
        *itertools.product(
            ["put_pointer_back", "put_pointer_back_and_delete", "put_vault_back", "delete_newest_two"],
            ["prune", "delete the first", "delete the third"],
        ),
        ("delete_newest_two", "delete the fourth"),
        ("delete_newest_two", "delete the last"),
    ],
)
def test_no_verb_signs_over_a_pointer_that_is_refused(name, verb, kind):
    held = Held(kind=kind)
    ATTACKS[name][1](held)
    before, head = dict(held.files), held.notes.read("default")
    assert change(held, verb, "witness")[0] == R
    assert held.notes.read("default") == head
    with pytest.raises(RollbackDetected):
        held.client("witness").plan_prune(label="default", keep=1)
    assert held.files == before
    assert outcome(held.client("witness").restore)[0] == R


@pytest.mark.parametrize("kind", ["full", "plain"])
@pytest.mark.parametrize("saved", [1, 2])
def test_the_latest_of_a_signed_label_is_deleted_by_a_signer_only(saved, kind):
    """Who has no key would leave a pointer that clients which pin refuse, or take for a rollback."""
    fake, witness = FakeVault(operations_per_hour=None), DictWitness()
    vault = fake if kind == "full" else PlainVault(fake)
    owner = ColonyMemory(backend=vault, signer=OWN, witness=witness)
    ids = [owner.backup({"m": f"v{n}"}).snapshot_id for n in range(saved)]
    before = dict(fake.files)
    for keyless in (ColonyMemory(backend=vault), ColonyMemory(backend=vault, trusted_issuers=OWN.did_key)):
        with pytest.raises(ColonyMemoryError, match=r"only a client that signs may do; try .*signer="):
            keyless.delete_snapshot(label="default", snapshot_id=ids[-1])
    assert fake.files == before
    owner.delete_snapshot(label="default", snapshot_id=ids[-1])
    assert owner.restore(default={"m": "none"}) == ({"m": "v0"} if saved == 2 else {"m": "none"})


@pytest.mark.parametrize("kind", ["full", "plain"])
def test_a_signed_label_is_pruned_and_tagged_by_a_signer_only(kind):
    held = Held(kind=kind)
    before = dict(held.files)
    for keyless in ({}, {"trusted_issuers": OWN.did_key}):
        mem = ColonyMemory(backend=held.backend, **keyless)
        assert len(mem.plan_prune(label="default", keep=2).remove) == 3
        with pytest.raises(ColonyMemoryError, match="only a client that signs"):
            mem.tag(snapshot_id=held.ids[4], add="bad")
        with pytest.raises(ColonyMemoryError, match=r"pruning takes .* only a client that signs may do; try .*signer="):
            mem.prune(label="default", keep=2)
    assert held.files == before
    assert held.client().tag(snapshot_id=held.ids[4], add="good") == ("good",)
    assert held.client("issuers").latest().tags == ("good",)
    assert held.client().prune(label="default", keep=2) == 3


def test_who_does_not_sign_writes_no_pointer_over_one_that_names_what_is_lost():
    fake = FakeVault(operations_per_hour=None)
    owner = ColonyMemory(backend=fake, signer=OWN)
    ids = [owner.backup({"m": f"v{n}"}).snapshot_id for n in range(3)]
    for name in [name for name in fake.files if ids[2] in name]:
        del fake.files[name]
    before = fake.files[POINTER]
    ColonyMemory(backend=fake).delete_snapshot(label="default", snapshot_id=ids[0])
    assert fake.files[POINTER] == before
    assert not any(ids[0] in name for name in fake.files)


def test_a_memory_that_equals_the_one_that_was_put_back_is_saved_again():
    """To say that it is saved already, where a restore refuses it, would be to lose it."""
    held = Held()
    put_pointer_back(held)
    with pytest.warns(ColonyMemoryWarning, match=r"is an older one.*The backup is made"):
        info = held.client().backup({"m": "v2"})
    assert not info.reused
    assert held.client().restore() == {"m": "v2"}


@pytest.mark.parametrize("last", ["99991231T235959999998Z-ffffff", FUTURE])
@pytest.mark.parametrize("where", ["pointer", "manifest"])
def test_an_id_from_the_future_is_not_followed_where_nobody_trusted_made_it(last, where):
    held = Held()
    held.put("forged", snapshot_id=last)
    if where == "pointer":
        held.point(last)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        for number in range(4):
            info = held.client().backup({"m": f"new {number}"}, prune_keep=9)
            assert info.snapshot_id < FUTURE
            assert held.client().restore() == {"m": f"new {number}"}


# --- keys that were replaced ---


def rotated(*, new=2):
    """Three versions by the retired key, and then some by the new one; what the clients of the new one trust."""
    held = Held(versions=3, signer=RETIRED)
    trusted = {RETIRED.did_key: held.ids[-1], OWN.did_key: None}
    for number in range(new):
        held.save(f"v{3 + number}", signer=OWN, trusted_issuers=trusted)
    return held, {"signer": OWN, "trusted_issuers": trusted}


def test_the_thief_of_a_retired_key_cannot_sign_anything_newer():
    held, options = rotated()
    held.put("forged", snapshot_id=FUTURE, by=RETIRED)
    held.point(FUTURE, by=RETIRED)
    found, error = outcome(ColonyMemory(backend=held.backend, **options).restore)
    assert (found, f"up to snapshot {held.ids[2]} only" in str(error)) == (U, True)
    found, error = outcome(lambda: ColonyMemory(backend=held.backend, **options).restore(snapshot_id=FUTURE))
    assert (found, f"up to snapshot {held.ids[2]} only" in str(error)) == (U, True)


@pytest.mark.parametrize("listed", [True, False])
def test_the_thief_of_a_retired_key_cannot_point_behind_what_is_there(listed):
    """Not even with a generation above every other, and a catalogue that lists the newer ones."""
    held, options = rotated()
    pointer = read_pointer(held.files[POINTER], label="default")
    entries = [entry for entry in pointer.entries if listed or entry.info.snapshot_id <= held.ids[2]]
    back = pointer.follow(held.ids[1], updated_at="x", entries=entries, stream=pointer.stream, above=10**12)
    for forged in (back, type(back)(**{**vars(back), "went_back_from": held.ids[2]})):
        held.files[POINTER] = write_pointer(forged, signer=RETIRED)
        mem = ColonyMemory(backend=held.backend, witness=held.notes, **options)
        found, _ = outcome(mem.restore)
        assert found in (R, U)
        assert not mem.verify()
        with pytest.raises(UntrustedSnapshot):
            mem.prune(label="default", keep=1)
        with pytest.raises(UntrustedSnapshot):
            mem.latest()


def test_the_thief_of_a_retired_key_can_bring_back_the_last_state_that_it_signed():
    """What documentation calls neither prevented nor detected: it holds until the key is no longer trusted."""
    held, options = rotated()
    for name in held.states[4]:
        if name not in held.states[2]:
            del held.files[name]
    pointer = read_pointer(held.states[2][POINTER], label="default")
    forged = pointer.follow(held.ids[2], updated_at="x", entries=pointer.entries, stream=pointer.stream, above=10**12)
    held.files[POINTER] = write_pointer(forged, signer=RETIRED)
    assert ColonyMemory(backend=held.backend, witness=held.notes, **options).restore() == {"m": "v2"}
    options["trusted_issuers"] = [OWN.did_key]
    found, _ = outcome(ColonyMemory(backend=held.backend, witness=held.notes, **options).restore)
    assert found in (U, R)


def test_the_thief_of_a_retired_key_is_warned_of_where_one_snapshot_of_the_new_one_is_there():
    held, options = rotated(new=1)
    pointer = read_pointer(held.files[POINTER], label="default")
    back = pointer.follow(held.ids[1], updated_at="x", entries=pointer.entries, stream=pointer.stream, above=10**12)
    forged = type(back)(**{**vars(back), "went_back_from": held.ids[2]})
    held.files[POINTER] = write_pointer(forged, signer=RETIRED)
    with pytest.warns(ColonyMemoryWarning, match="a pointer that was put back"):
        ColonyMemory(backend=held.backend, witness=held.notes, **options).restore()


# --- the day of the upgrade ---


def as_0_1_1(held):
    """Every file as 0.1.1 would have written it with the same key."""
    for name in held.files:
        if not name.endswith(".p0.json"):
            held.edit(name, lambda raw: [raw.pop(key, None) for key in ("generation", "stream", "catalog", "previous")])
            held.edit(name, lambda raw: raw.pop("signature", None))
            if name != POINTER:
                held.sign(name, OWN)


def test_from_the_second_day_on_a_pointer_of_0_1_1_is_refused_until_it_is_accepted():
    held = Held()
    as_0_1_1(held)
    quietly(lambda: held.client().backup({"m": "first"}))
    held.client().backup({"m": "new"})  # names the one before it, so its writer has signed the pointer
    pointed = json.loads(held.states[4][POINTER])
    held.files[POINTER] = json.dumps({key: pointed[key] for key in list(pointed)[:5]})
    with pytest.raises(UntrustedSnapshot, match=r"its pointers have to be accepted"):
        held.client().restore()
    with pytest.warns(ColonyMemoryWarning, match="newest whole"):
        assert held.client("legacy").restore() == {"m": "new"}


@pytest.mark.parametrize("verb", ["prune", "backup keeping one"])
def test_a_signer_on_a_vault_that_nobody_signed_loses_nothing(verb):
    held = Held(signer=None)
    with pytest.raises(
        UntrustedSnapshot,
        match=r"are older than signing in .*, accept them once.*; try ColonyMemory\(require_signature=False\)",
    ):
        held.client().restore()
    with pytest.raises(UntrustedSnapshot):
        held.client().restore(default={})
    with pytest.warns(ColonyMemoryWarning, match=r"5 snapshots up to \S+ are older than signing"):
        assert held.client().list_snapshots() == []
    change(held, verb, "signer")
    assert genuine(held) == [0, 1, 2, 3, 4]
    # The one-time way, and then the usual one.
    accepted = held.client(require_signature=False).restore(snapshot_id=held.ids[4])
    assert accepted == {"m": "v4"}
    quietly(lambda: held.client().backup(accepted))
    assert held.client().restore() == {"m": "v4"}
    assert genuine(held) == [0, 1, 2, 3, 4]
    held.client().delete_snapshot(label="default", snapshot_id=held.ids[0])
    assert genuine(held) == [1, 2, 3, 4]


# --- verify=False, and other ways to look away ---


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("strip_everything", "v4"),
        ("sign_everything_anew", "v4"),
        ("edit_manifest", "v4"),
        ("replace_and_sign_anew", "forged"),
        ("move_an_older_one_over_the_newest", C),
        ("move_from_another_label", C),
        ("swap_parts", C),
        ("edit_part", C),
        ("delete_all_but_the_pointer", C),
    ],
)
def test_verify_false_looks_away_from_signatures_and_from_nothing_else(name, found):
    held = Held()
    ATTACKS[name][1](held)
    assert outcome(lambda: held.client().restore(verify=False))[0] == found
    if found == "v4":
        assert outcome(lambda: held.client().restore(snapshot_id=held.ids[4], verify=False))[0] == found


@pytest.mark.parametrize("more", [{"verify": False}, {}])
def test_nothing_that_is_not_proven_reaches_the_witness(more):
    """It never goes back: a count that a forger made up would have every genuine pointer refused from then on."""
    held = Held()
    genuine_pointer = held.files[POINTER]
    raise_generation(held)
    seen = dict(held.notes.heads)
    policy = "witness" if more else "lenient"
    quietly(lambda: held.client(policy, witness=held.notes, **({"notes": False} if more else {})).restore(**more))
    assert held.notes.heads == seen
    held.files[POINTER] = genuine_pointer
    assert held.client("witness").restore() == {"m": "v4"}


@pytest.mark.parametrize("options", [{}, {"signer": OWN}])
def test_a_count_at_its_end_stays_there(options):
    """An unsigned vault lets anyone write the largest; no backup fails by it, nor with a witness that has seen it."""
    held = Held(signer=options.get("signer"))
    raise_generation(held)
    if options:
        held.sign(POINTER, OWN)
        held.files.update({POINTER: held.files[POINTER]})
    mem = ColonyMemory(backend=held.backend, witness=held.notes, **options)
    quietly(mem.verify)
    for text in ("x", "y"):
        quietly(lambda each=text: mem.backup({"m": each}))
    assert ColonyMemory(backend=held.backend, witness=held.notes, **options).restore() == {"m": "y"}
    assert held.notes.heads["default"].startswith(f"{2**53 - 1}:")


# --- the witness ---


def test_a_client_that_is_running_is_a_witness_of_its_own():
    held = Held()
    mem = held.client()
    mem.restore()
    put_vault_back(held)
    with pytest.raises(RollbackDetected):
        mem.restore()
    held.files.clear()
    assert [label.rolled_back for label in mem.inspect().labels] == [True]
    with pytest.raises(RollbackDetected, match="none of its snapshots"):
        mem.list_snapshots()
    assert mem.list_snapshots(label="other") == []


class Broken(DictWitness):
    def __init__(self, *, read=None, record=None):
        super().__init__()
        self._read, self._record = read, record

    def read(self, label):
        if isinstance(self._read, Exception):
            raise self._read
        return self._read

    def record(self, label, head):
        if self._record is not None:
            raise self._record


@pytest.mark.parametrize("answer", [OSError("disk on fire"), "abc", "0:0123456789abcdef", "", 5, b"5", ["5"]])
def test_a_witness_that_does_not_answer_stops_every_verb_that_asks_it_but_backup(answer):
    """A witness that fails must not look like one that has seen nothing; and it must not cost the last backup."""
    held = Held()
    before = dict(held.files)
    mem = held.client(witness=Broken(read=answer))
    for verb in (
        mem.restore,
        lambda: mem.restore(default={}),
        mem.latest,
        mem.verify,
        lambda: mem.prune(label="default"),
        lambda: mem.delete_snapshot(label="default", snapshot_id=held.ids[4]),
    ):
        with pytest.raises(ColonyMemoryError, match="the witness"):
            verb()
    assert held.files == before
    assert mem.restore(snapshot_id=held.ids[4]) == {"m": "v4"}
    for options in ({}, {"prune_keep": 1}):
        with pytest.warns(ColonyMemoryWarning, match=r"the witness.* The backup is made"):
            info = mem.backup({"m": f"saved with {options}"}, **options)
        assert info.head
    assert set(before) - set(held.files) == set()
    assert held.client().restore() == {"m": "saved with {'prune_keep': 1}"}


def test_a_witness_that_cannot_record_costs_a_warning():
    held = Held()
    mem = held.client(witness=Broken(record=OSError("read-only")))
    with pytest.warns(ColonyMemoryWarning, match=r"is at 5:.*could not record it: read-only"):
        assert mem.restore() == {"m": "v4"}
    with pytest.warns(ColonyMemoryWarning, match="could not record"):
        mem.backup({"m": "new"})


# --- the vault itself lies ---


def test_one_state_for_each_client_shows_when_their_heads_meet():
    """A fork: either host sees a history that holds, until one is asked about the other's head."""
    held = Held(versions=2)
    fork = dict(held.files)
    held.save("for the first", signer=OWN)
    first = held.notes.heads["default"]
    held.files.clear()
    held.files.update(fork)
    held.notes.heads.clear()
    held.save("for the second", signer=OWN)
    assert held.client().restore() == {"m": "for the second"}
    with pytest.raises(RollbackDetected, match="a different snapshot from the one seen"):
        held.client().restore(at_least=first)


# --- the stream of a label ---


@pytest.mark.parametrize("way", ["0.1.1 writes the pointer", "the pointer is lost", "the pointer is garbled"])
@pytest.mark.parametrize("witnessed", [True, False])
def test_a_label_keeps_its_stream_whoever_spoils_the_pointer(way, witnessed):
    """Drawn anew, it would have every other witness cry rollback over what the agent saved."""
    held = Held()
    before = json.loads(held.files[POINTER])
    if way == "0.1.1 writes the pointer":
        held.files[POINTER] = json.dumps({key: before[key] for key in list(before)[:5]})
    elif way == "the pointer is lost":
        del held.files[POINTER]
    else:
        held.files[POINTER] = held.files[POINTER][:-40]
    quietly(lambda: held.client("witness" if witnessed else "signer").backup({"m": "new"}))
    assert json.loads(held.files[POINTER])["stream"] == before["stream"]
    assert held.client("witness").restore() == {"m": "new"}
    assert len(held.client().list_snapshots()) == 6


def test_snapshots_of_another_vault_of_the_same_key_do_not_count():
    held, other = Held(), FakeVault(operations_per_hour=None, clock=lambda: held.clock)
    ids = [ColonyMemory(backend=other, signer=OWN).backup({"m": f"staging {n}"}).snapshot_id for n in range(6)]
    held.files.update({name: text for name, text in other.files.items() if "latest" not in name})
    held.clock += STEP
    mem = held.client()
    with pytest.warns(ColonyMemoryWarning, match="to another history"):
        assert {info.snapshot_id for info in mem.list_snapshots()} == set(held.ids)
    quietly(lambda: mem.backup({"m": "new"}, prune_keep=3))
    assert genuine(held)[-2:] == [3, 4]
    assert set(mem.verify().forged) == set(ids)
    del held.files[held.part(4)]
    del held.files[POINTER]
    # Nor does a way back lead to one.
    assert quietly(lambda: held.client("legacy").restore(fallback=True)) == {"m": "new"}


def test_a_delete_under_a_pointer_that_was_lost_hides_nothing_that_is_young():
    """The pointer that was made anew lists nothing of it, and goes back behind it."""
    held = Held(versions=1)
    mem = held.client()
    ids = [mem.backup({"m": f"young {n}"}).snapshot_id for n in range(2)]
    del held.files[POINTER]
    last = quietly(lambda: mem.backup({"m": "last"})).snapshot_id
    quietly(lambda: mem.delete_snapshot(label="default", snapshot_id=last))
    listed = [info.snapshot_id for info in quietly(held.client().list_snapshots)]
    assert listed == [*reversed(ids), held.ids[0]]


def test_a_signed_pointer_of_another_stream_that_lists_nothing_gives_nothing():
    held = Held()
    raw = json.loads(held.files[POINTER])
    own = {key: value for key, value in raw.items() if key not in ("signature", "catalog")}
    held.files[POINTER] = json.dumps({**own, "signature": sign_manifest(own, OWN)})
    assert held.client().restore()
    other = {**own, "stream": "f" * 16}
    held.files[POINTER] = json.dumps({**other, "signature": sign_manifest(other, OWN)})
    with pytest.raises(UntrustedSnapshot, match="another history"):
        held.client().restore()
