import asyncio
from contextlib import nullcontext
from datetime import datetime, timedelta, timezone

import pytest
from colony_sdk import ColonyAPIError
from small_vaults import BARE_404, BUSY, NAME, Dictionary, view

from colony_memory import ColonyMemory
from colony_memory._boundary import drive
from colony_memory._engine.label import require_complete
from colony_memory._engine.store import StoredFile, Vault
from colony_memory.exceptions import RateLimited, VaultDenied, VaultError, VaultUnavailable
from colony_memory.testing import FakeVault

# --- status ---


@pytest.mark.parametrize("reply", [None, [], "", 7, {"result": []}])
def test_a_status_that_is_no_object_says_nothing(reply):
    with pytest.raises(VaultUnavailable, match="the vault's status is not readable"):
        drive(view(status=reply)[0].status())


# --- listing ---

ITEM = {"filename": "cmem.a.json", "content_size": 7, "updated_at": "2026-01-02T03:04:05Z"}
LISTED = (7, datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc))


TORN = ("has no list of files, try again", [{}, {"items": None}, {"items": {}}, {"result": {}}])
NAMELESS = (
    "has a file name that is no string",
    [[ITEM, each] for each in (None, 7, {}, {"filename": None}, {"filename": 7}, {"name": ["x"]}, [], ["x"])],
)
EMPTY = [[], {"items": []}, {"files": []}, {"result": []}, {"items": [], "total": 0}]
WHOLE = [
    [ITEM],
    {"items": [ITEM]},
    {"files": [ITEM]},
    {"items": None, "files": [ITEM]},
    {"result": {"items": [ITEM]}},
    {"result": {"files": [ITEM], "total": 1}},
    {"items": [ITEM], "total": 1, "has_more": False, "next_cursor": None},
    {"items": [{**ITEM, "filename": None, "name": "cmem.a.json"}, {"filename": "other"}, "MEMORY.md"]},
]
CUT = [
    reply
    for cut in ({"has_more": True}, {"next_cursor": "x"}, {"total": 2}, {"has_more": False, "total": 10**9})
    for reply in ({"items": [ITEM], **cut}, {"result": {"files": [ITEM], **cut}})
]


@pytest.mark.parametrize("reply", [*WHOLE, *CUT, *EMPTY])
def test_a_listing_has_many_shapes(reply):
    listing = drive(view(list=reply)[0].list("cmem."))
    there = {} if reply in EMPTY else {"cmem.a.json": LISTED}
    assert {name: (file.size, file.updated) for name, file in listing.files.items()} == there
    assert (listing.prefix, listing.complete) == ("cmem.", reply not in CUT)
    refused = pytest.raises(VaultError, match=r"pruning is refused: the vault's list of cmem\.\* is cut")
    with nullcontext() if listing.complete else refused:
        require_complete(listing, "cmem.*", "pruning")


@pytest.mark.parametrize(
    ("words", "reply"), [(words, reply) for words, replies in (TORN, NAMELESS) for reply in replies]
)
def test_a_torn_listing_is_not_an_empty_one(words, reply):
    with pytest.raises(VaultUnavailable, match=rf"listing cmem\.\* failed: the reply .*{words}"):
        drive(view(list=reply)[0].list("cmem."))


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-02T03:04:05Z", datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)),
        ("2026-01-02T03:04:05.000006Z", datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=timezone.utc)),
        ("2026-01-02T03:04:05", datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)),
        ("2026-01-02T03:04:05+02:00", datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2)))),
        ("", None),
        (None, None),
        (1767323045, None),
    ],
)
def test_times_and_sizes_are_told_where_they_can_be_read(text, moment):
    reply = [{"filename": "a", "updated_at": text, "content_size": "7"}]
    (found,) = drive(view(list=reply)[0].list("")).files.values()
    assert (found.size, found.updated) == (None, moment)


def test_a_vault_that_lists_by_prefix_is_asked_for_one():
    class Prefixed(Dictionary):
        def vault_list_prefix(self, prefix):
            self.asked = prefix
            return [name for name in self.files if name.startswith(prefix)]

    long = "a" * 254 + "bcd"
    backend = Prefixed({"a" * 254 + "b": "", long: "", "z": ""})
    assert list(drive(Vault(backend).list(long)).files) == [long]
    assert backend.asked == long[:255]
    assert backend.calls == []


# --- reading ---


@pytest.mark.parametrize(
    ("reply", "etag"),
    [
        ({"content": "x"}, None),
        ({"result": {"content": "x"}}, None),
        ({"content": "x", "etag": '"e"'}, '"e"'),
        ({"content": "x", "etag": 7}, None),
    ],
)
def test_a_file_may_be_wrapped_and_tagged(reply, etag):
    assert drive(view(get=reply)[0].get(NAME)) == StoredFile("x", etag)


@pytest.mark.parametrize("reply", [None, {}, [], "x", 7, {"content": None}, {"content": b"x"}, {"result": {}}])
def test_a_torn_file_is_neither_there_nor_absent(reply):
    with pytest.raises(VaultUnavailable, match=f"reading {NAME} failed: the reply has no content"):
        drive(view(get=reply)[0].get(NAME))


class HttpError(OSError):
    """As the one of ``requests``: an OSError without status."""


@pytest.mark.parametrize(
    "error",
    [
        KeyError(NAME),
        RuntimeError("not found"),
        BARE_404,
        FileNotFoundError(2, "no such file"),
        HttpError("404 Client Error"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_absence_is_proven_by_a_listing(error):
    vault, backend = view({"other": ""}, get=error)
    assert drive(vault.get(NAME)) is None
    assert backend.calls == ["get", "list"]


@pytest.mark.parametrize("error", [KeyError(NAME), RuntimeError("not found"), BARE_404])
@pytest.mark.parametrize("listing", [{"items": [], "has_more": True}, {"items": [], "total": 1}, [NAME], ["a", NAME]])
def test_a_listing_that_is_cut_or_names_the_file_proves_nothing(error, listing):
    with pytest.raises(VaultError, match=f"^reading {NAME} failed") as caught:
        drive(view(get=error, list=listing)[0].get(NAME))
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("listing", [BUSY, TimeoutError(), None, {}])
def test_without_a_listing_nothing_is_proven(listing):
    with pytest.raises(VaultUnavailable, match=r"^listing cmem\.work\.x\.manifest\.json\* failed"):
        drive(view(get=KeyError(NAME), list=listing)[0].get(NAME))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (BUSY, VaultUnavailable),
        (ColonyAPIError("odd", 410), VaultError),
        (ColonyAPIError("no", 403, {}, "NOT_FOUND"), VaultDenied),
        (PermissionError(), VaultDenied),
        (ColonyAPIError("slow", 429), RateLimited),
    ],
)
def test_no_other_failure_is_absence(error, kind):
    vault, backend = view(get=error)
    with pytest.raises(kind) as caught:
        drive(vault.get(NAME))
    assert type(caught.value) is kind
    assert backend.calls == ["get"]


# --- the budget ---


@pytest.mark.parametrize(("reply", "left"), [(7, 7), (0, 0), (None, None), ("7", None)])
def test_operations_left_are_told_by_a_vault_that_counts(reply, left):
    class Counting(Dictionary):
        def vault_operations_left(self):
            return self._do("left", lambda: reply)

    assert drive(Vault(Counting()).number("operations_left")) == left
    vault, backend = view()
    assert drive(vault.number("operations_left")) is drive(vault.number("operations_reset")) is None
    assert backend.calls == []


@pytest.mark.parametrize(
    ("wait", "told", "retry_after"), [(None, "60 min", 3600), (3590, "60 min", 3590), (61, "2 min", 61)]
)
def test_what_takes_more_than_is_left_is_told_when_it_is_back(wait, told, retry_after):
    class Counting(FakeVault):
        def vault_operations_left(self):
            return 1

        def vault_operations_reset(self):
            return wait

    memory = ColonyMemory(backend=Counting())
    with pytest.raises(RateLimited, match=f"takes 1 more uploads .* try again in {told}") as caught:
        memory.import_snapshot(exported())
    assert caught.value.retry_after == retry_after
    assert memory.inspect().operations_reset_seconds == wait


def exported():
    memory = ColonyMemory(backend=FakeVault())
    memory.backup({"a": "b"})
    return memory.export_snapshot()


def test_what_waits_can_not_be_driven():
    closed = []

    async def verb():
        try:
            await asyncio.sleep(0)
        finally:
            closed.append(True)

    with pytest.raises(RuntimeError, match="use AsyncColonyMemory"):
        drive(verb())
    assert closed == [True]


class Wrapped(Dictionary):
    """Plain methods that give something to await."""

    def vault_get_file(self, filename):
        async def later():
            raise AssertionError

        return later()

    def vault_list_files(self):
        class Reply:
            def __await__(self):
                raise AssertionError

        return Reply()


def test_a_backend_that_gives_something_to_await_is_told_from_a_torn_one():
    vault = Vault(Wrapped())
    with pytest.raises(VaultUnavailable, match="use AsyncColonyMemory"):
        drive(vault.get(NAME))
    with pytest.raises(VaultUnavailable, match="use AsyncColonyMemory"):
        drive(vault.list(""))
