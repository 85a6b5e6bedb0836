from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from colony_memory.exceptions import ColonyMemoryError, VaultError
from colony_memory.testing import FakeVault, FaultyVault, VaultBackendTests
from colony_memory.vaults import ConditionalUpload, OperationBudget, PrefixListing, VaultBackend
from colony_memory.vaults.memory import UNLIMITED_BYTES, MemoryVault

if TYPE_CHECKING:
    from collections.abc import Sequence


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self, now: float = 1_767_225_600.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class TestMemoryVault(VaultBackendTests):
    @pytest.fixture
    def vault(self) -> MemoryVault:
        return MemoryVault()


class TestMemoryVaultWithLimits(VaultBackendTests):
    @pytest.fixture
    def vault(self) -> MemoryVault:
        return MemoryVault(quota_bytes=4_000_000, max_file_bytes=1_000_000)


class TestFakeVault(VaultBackendTests):
    @pytest.fixture
    def vault(self) -> FakeVault:
        return FakeVault(operations_per_hour=None)


class TestFaultyVaultWithoutFaults(VaultBackendTests):
    @pytest.fixture
    def vault(self) -> FaultyVault:
        return FaultyVault(MemoryVault())


class TestOnlyTheFiveMethods(VaultBackendTests):
    """The suite also serves a vault without the optional methods, with other envelopes."""

    @pytest.fixture
    def vault(self) -> Plain:
        return Plain()


class Plain:
    """The five methods, replies under ``result``, listings of bare names."""

    def __init__(self) -> None:
        self.inner = MemoryVault()

    def vault_status(self) -> Any:
        return {"result": self.inner.vault_status()}

    def vault_list_files(self) -> Any:
        return [item["filename"] for item in self.inner.vault_list_files()["items"]]

    def vault_get_file(self, filename: str) -> Any:
        return {"result": {"content": self.inner.vault_get_file(filename)["content"]}}

    def vault_upload_file(self, filename: str, content: str) -> Any:
        self.inner.vault_upload_file(filename, content)
        return {}

    def vault_delete_file(self, filename: str) -> Any:
        self.inner.vault_delete_file(filename)


# The suite must be able to fail: vaults with one defect each, and the test that has to find it.


class Lacking:
    vault_status = vault_list_files = vault_get_file = vault_upload_file = MemoryVault.vault_status


class TranslatesNewlines(MemoryVault):
    def vault_get_file(self, filename: str) -> dict[str, Any]:
        reply = super().vault_get_file(filename)
        return {**reply, "content": reply["content"].replace("\r\n", "\n")}


class StripsTheMark(MemoryVault):
    def vault_upload_file(self, filename: str, content: str) -> dict[str, Any]:
        return super().vault_upload_file(filename, content.removeprefix("\ufeff"))


class CutsAt64K(MemoryVault):
    def vault_upload_file(self, filename: str, content: str) -> dict[str, Any]:
        return super().vault_upload_file(filename, content[:65536])


class GivesBytes(MemoryVault):
    def vault_get_file(self, filename: str) -> dict[str, Any]:
        reply = super().vault_get_file(filename)
        return {**reply, "content": reply["content"].encode()}


class ReplacesSurrogates(MemoryVault):
    def vault_upload_file(self, filename: str, content: str) -> dict[str, Any]:
        return super().vault_upload_file(filename, content.encode("utf-8", "replace").decode())


class LosesTheOldFileOnRefusal(MemoryVault):
    def _encode(self, filename: str, content: str) -> bytes:
        self.files[filename] = ""
        return super()._encode(filename, content)


class CountsCharacters(MemoryVault):
    def vault_upload_file(self, filename: str, content: str) -> dict[str, Any]:
        return {**super().vault_upload_file(filename, content), "content_size": len(content)}


class AnswersNone(MemoryVault):
    def vault_upload_file(self, filename: str, content: str) -> Any:
        super().vault_upload_file(filename, content)


class OverwritesInPlace(MemoryVault):
    def vault_upload_file(self, filename: str, content: str) -> dict[str, Any]:
        return super().vault_upload_file(filename, content + self.files.get(filename, "")[len(content) :])


class AnswersMissingWithEmpty(MemoryVault):
    def vault_get_file(self, filename: str) -> dict[str, Any]:
        return super().vault_get_file(filename) if filename in self.files else {"content": ""}


class RaisesKeyError(MemoryVault):
    def vault_get_file(self, filename: str) -> dict[str, Any]:
        return {"content": self.files[filename]}


class DeletesNothingQuietly(MemoryVault):
    def vault_delete_file(self, filename: str) -> dict[str, Any]:
        return super().vault_delete_file(filename) if filename in self.files else {}


class KeepsDeleted(MemoryVault):
    def vault_delete_file(self, filename: str) -> dict[str, Any]:
        self._find(filename)
        return {}


class DeletesByPrefix(MemoryVault):
    def vault_delete_file(self, filename: str) -> dict[str, Any]:
        stem = filename.removesuffix(".md")
        self.vault_get_file(filename)
        for name in [name for name in self.files if name.startswith(stem)]:
            super().vault_delete_file(name)
        return {}


class FoldsNames(MemoryVault):
    def vault_upload_file(self, filename: str, content: str) -> dict[str, Any]:
        return super().vault_upload_file(filename.lower(), content)

    def vault_get_file(self, filename: str) -> dict[str, Any]:
        return super().vault_get_file(filename.lower())


class DecodesNames(MemoryVault):
    def vault_upload_file(self, filename: str, content: str) -> dict[str, Any]:
        return super().vault_upload_file(filename.replace("%20", " "), content)

    def vault_get_file(self, filename: str) -> dict[str, Any]:
        return super().vault_get_file(filename.replace("%20", " "))


class ListsAPageSilently(MemoryVault):
    def vault_list_files(self) -> dict[str, Any]:
        items = super().vault_list_files()["items"][:20]
        return {"items": items, "total": len(items)}


class ListsABarePage(MemoryVault):
    def vault_list_files(self) -> Any:
        return super().vault_list_files()["items"][:20]


class ListsGhosts(MemoryVault):
    def vault_list_files(self) -> dict[str, Any]:
        return {"items": [*super().vault_list_files()["items"], {"filename": "ghost.md"}]}


class ListsTwice(MemoryVault):
    def vault_list_files(self) -> dict[str, Any]:
        return {"items": super().vault_list_files()["items"] * 2}


class ListsWrongSizes(MemoryVault):
    def vault_list_files(self) -> dict[str, Any]:
        items = super().vault_list_files()["items"]
        return {"items": [{**item, "content_size": len(self.files[item["filename"]])} for item in items]}


class ListsNoList(MemoryVault):
    def vault_list_files(self) -> dict[str, Any]:
        return {"total": len(self.files)}


class ListsContent(MemoryVault):
    def vault_list_files(self) -> dict[str, Any]:
        return {"items": [self.vault_get_file(name) for name in self.files]}


class StatusWithoutKeys(MemoryVault):
    def vault_status(self) -> dict[str, Any]:
        return {"used_bytes": 0}


class StatusInText(MemoryVault):
    def vault_status(self) -> dict[str, Any]:
        return {key: str(value) for key, value in super().vault_status().items()}


class StatusNegative(MemoryVault):
    def vault_status(self) -> dict[str, Any]:
        return {**super().vault_status(), "available_bytes": -1}


class StatusNeverMoves(MemoryVault):
    def vault_status(self) -> dict[str, Any]:
        return {"quota_bytes": 0, "used_bytes": 0, "available_bytes": 0, "file_count": 0}


class UsesNothing(MemoryVault):
    def vault_status(self) -> dict[str, Any]:
        return {**super().vault_status(), "used_bytes": 0}


class OffersMoreThanItHas(MemoryVault):
    def vault_status(self) -> dict[str, Any]:
        status = super().vault_status()
        return {**status, "available_bytes": status["quota_bytes"] + 1}


class CopiesTheIndex(MemoryVault):
    """Loses uploads of other threads."""

    def vault_upload_file(self, filename: str, content: str) -> dict[str, Any]:
        files = dict(self.files)
        time.sleep(0.002)
        files[filename] = content
        self.files = files
        return {}


class SharesACursor(MemoryVault):
    """Gives a thread the file that another one asked for."""

    def vault_get_file(self, filename: str) -> dict[str, Any]:
        self.cursor = filename
        time.sleep(0.002)
        return super().vault_get_file(self.cursor)


class WritesInTwoHalves(MemoryVault):
    def vault_upload_file(self, filename: str, content: str) -> dict[str, Any]:
        super().vault_upload_file(filename, content[: len(content) // 2])
        time.sleep(0.002)
        return super().vault_upload_file(filename, content)


class IgnoresIfMatch(MemoryVault):
    def vault_upload_file_if(self, filename: str, content: str, **conditions: Any) -> dict[str, Any]:
        return super().vault_upload_file_if(filename, content, **{**conditions, "if_match": None})


class WritesThenRefuses(MemoryVault):
    def vault_upload_file_if(self, filename: str, content: str, **conditions: Any) -> dict[str, Any]:
        old = self._entry(filename)
        super().vault_upload_file(filename, content)
        if old is not None and conditions.get("if_match") not in (None, old.etag):
            raise VaultError("changed", status=412)
        return {}


class CreatesOnIfMatch(MemoryVault):
    def vault_upload_file_if(self, filename: str, content: str, **conditions: Any) -> dict[str, Any]:
        if filename not in self.files:
            conditions["if_match"] = None
        return super().vault_upload_file_if(filename, content, **conditions)


class ConstantEtag(MemoryVault):
    def vault_get_file(self, filename: str) -> dict[str, Any]:
        return {**super().vault_get_file(filename), "etag": "1"}

    def vault_upload_file_if(self, filename: str, content: str, **conditions: Any) -> dict[str, Any]:
        return super().vault_upload_file(filename, content)


class NoEtag(MemoryVault):
    def vault_get_file(self, filename: str) -> dict[str, Any]:
        return {"content": super().vault_get_file(filename)["content"]}


class IgnoresIfNoneMatch(MemoryVault):
    def vault_upload_file_if(self, filename: str, content: str, **conditions: Any) -> dict[str, Any]:
        return super().vault_upload_file_if(filename, content, **{**conditions, "if_none_match": None})


class RefusesWith409(MemoryVault):
    def _refusal(self, status: int, code: str | None, message: str) -> Exception:
        return super()._refusal(409 if status == 412 else status, code, message)


class ChecksThenWrites(MemoryVault):
    """Two writers may both find the condition true."""

    def vault_upload_file_if(
        self, filename: str, content: str, *, if_match: str | None = None, if_none_match: str | None = None
    ) -> dict[str, Any]:
        old = self._entry(filename)
        if (if_none_match and old) or (if_match and (old is None or old.etag != if_match)):
            raise VaultError("changed", status=412)
        time.sleep(0.005)
        return super().vault_upload_file(filename, content)


class NobodyWins(MemoryVault):
    def vault_upload_file_if(self, filename: str, content: str, **conditions: Any) -> dict[str, Any]:
        raise VaultError("changed", status=412)


class PrefixAsPattern(MemoryVault):
    def vault_list_prefix(self, prefix: str) -> dict[str, Any]:
        import fnmatch

        items = [
            item for item in self.vault_list_files()["items"] if fnmatch.fnmatchcase(item["filename"], f"{prefix}*")
        ]
        return {"items": items}


class RoomInText(MemoryVault):
    def vault_free_bytes(self) -> str:
        return "plenty"


class LooksUpEverything(MemoryVault):
    def vault_look_up_files(self, filenames: Sequence[str]) -> dict[str, Any]:
        return self.vault_list_files()


class LooksUpByPrefix(MemoryVault):
    def vault_look_up_files(self, filenames: Sequence[str]) -> dict[str, Any]:
        return {"items": [item for name in filenames for item in self.vault_list_prefix(name)["items"]]}


class RemembersWhatItLookedUp(MemoryVault):
    seen: tuple[Any, ...] = ()

    def vault_look_up_files(self, filenames: Sequence[str]) -> dict[str, Any]:
        listed = (*self.vault_list_files()["items"], *self.seen)
        self.seen = tuple({item["filename"]: item for item in listed}.values())
        return {"items": [item for item in self.seen if item["filename"] in filenames]}


class DeletesTheFirstAlone(MemoryVault):
    def vault_delete_files(self, filenames: Sequence[str]) -> dict[str, Any]:
        return self.vault_delete_file(filenames[0])


class PrefixIgnored(MemoryVault):
    def vault_list_prefix(self, prefix: str) -> dict[str, Any]:
        return self.vault_list_files()


DEFECTS = [
    (Lacking, "test_has_the_five_methods"),
    (TranslatesNewlines, "test_text_comes_back_exactly"),
    (StripsTheMark, "test_text_comes_back_exactly"),
    (GivesBytes, "test_text_comes_back_exactly"),
    (CutsAt64K, "test_large_text_comes_back_exactly"),
    (ReplacesSurrogates, "test_text_that_utf8_cannot_encode_is_exact_or_refused"),
    (LosesTheOldFileOnRefusal, "test_text_that_utf8_cannot_encode_is_exact_or_refused"),
    (CountsCharacters, "test_upload_tells_the_size"),
    (AnswersNone, "test_upload_tells_the_size"),
    (OverwritesInPlace, "test_replace_is_whole"),
    (ListsTwice, "test_replace_is_whole"),
    (AnswersMissingWithEmpty, "test_missing_file_is_a_404"),
    (RaisesKeyError, "test_missing_file_is_a_404"),
    (DeletesNothingQuietly, "test_missing_file_is_a_404"),
    (FoldsNames, "test_names_are_compared_exactly"),
    (DecodesNames, "test_odd_names"),
    (KeepsDeleted, "test_odd_names"),
    (ListsAPageSilently, "test_listing_names_every_file"),
    (ListsABarePage, "test_listing_names_every_file"),
    (ListsGhosts, "test_listing_names_every_file"),
    (ListsWrongSizes, "test_listing_names_every_file"),
    (ListsNoList, "test_listing_names_every_file"),
    (ListsContent, "test_listing_has_no_content"),
    (KeepsDeleted, "test_delete_is_final"),
    (DeletesByPrefix, "test_delete_is_final"),
    (StatusWithoutKeys, "test_status"),
    (StatusInText, "test_status"),
    (StatusNegative, "test_status"),
    (StatusNeverMoves, "test_status"),
    (UsesNothing, "test_status"),
    (OffersMoreThanItHas, "test_status"),
    (SharesACursor, "test_concurrent_reads"),
    (WritesInTwoHalves, "test_concurrent_writers_leave_one_text_whole"),
    (IgnoresIfMatch, "test_conditional_upload_on_the_etag"),
    (WritesThenRefuses, "test_conditional_upload_on_the_etag"),
    (CreatesOnIfMatch, "test_conditional_upload_on_the_etag"),
    (ConstantEtag, "test_conditional_upload_on_the_etag"),
    (NoEtag, "test_conditional_upload_on_the_etag"),
    (IgnoresIfNoneMatch, "test_conditional_upload_on_absence"),
    (RefusesWith409, "test_conditional_upload_on_absence"),
    (ChecksThenWrites, "test_conditional_upload_has_one_winner"),
    (NobodyWins, "test_conditional_upload_has_one_winner"),
    (PrefixAsPattern, "test_prefix_listing"),
    (PrefixIgnored, "test_prefix_listing"),
    (LooksUpEverything, "test_lookup_of_files"),
    (LooksUpByPrefix, "test_lookup_of_files"),
    (RemembersWhatItLookedUp, "test_lookup_of_files"),
    (DeletesTheFirstAlone, "test_deletion_of_many"),
    (RoomInText, "test_free_space"),
]


@pytest.mark.parametrize(("broken", "test"), DEFECTS, ids=[f"{b.__name__}-{t[5:]}" for b, t in DEFECTS])
def test_the_suite_finds_the_defect(broken: type, test: str) -> None:
    with pytest.raises(AssertionError):
        getattr(VaultBackendTests(), test)(broken())


def test_the_suite_finds_lost_uploads() -> None:
    # Here the missing file may show as a 404 from the vault before a check sees it.
    with pytest.raises((AssertionError, VaultError)):
        VaultBackendTests().test_concurrent_calls(CopiesTheIndex())


def test_the_suite_hands_on_a_foreign_error_of_a_race() -> None:
    with pytest.raises(VaultError, match=r"is not the file|exists"):
        VaultBackendTests().test_conditional_upload_has_one_winner(RefusesWith409())


def test_every_test_of_the_suite_has_a_defect_that_fails_it() -> None:
    tests = {name for name in dir(VaultBackendTests) if name.startswith("test_")}
    assert tests == {test for _, test in DEFECTS} | {"test_concurrent_calls"}


def test_a_listing_that_says_it_is_cut_passes() -> None:
    class Cut(MemoryVault):
        def vault_list_files(self) -> dict[str, Any]:
            reply = super().vault_list_files()
            return {"items": reply["items"][:20], "total": reply["total"]}

    VaultBackendTests().test_listing_names_every_file(Cut())


@pytest.mark.parametrize("test", ["test_conditional_upload_on_absence", "test_prefix_listing"])
def test_optional_methods_are_skipped_where_they_are_missing(test: str) -> None:
    with pytest.raises(pytest.skip.Exception, match="Plain has no"):
        getattr(VaultBackendTests(), test)(Plain())


def test_capabilities() -> None:
    vault = MemoryVault()
    assert isinstance(vault, VaultBackend)
    assert isinstance(vault, ConditionalUpload)
    assert isinstance(vault, PrefixListing)
    assert not isinstance(vault, OperationBudget)


def test_replies() -> None:
    clock = Clock()
    vault = MemoryVault(clock=clock)
    made = vault.vault_upload_file("b.md", "é")
    assert made == {
        "filename": "b.md",
        "content_size": 2,
        "created_at": "2026-01-01T00:00:00.000000Z",
        "updated_at": "2026-01-01T00:00:00.000000Z",
    }
    clock.now += 1.5
    vault.vault_upload_file("a.md", "")
    changed = vault.vault_upload_file("b.md", "abc")
    assert (changed["created_at"], changed["updated_at"]) == (made["created_at"], "2026-01-01T00:00:01.500000Z")
    assert vault.vault_get_file("b.md") == {
        **changed,
        "content": "abc",
        "etag": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    }
    listing = vault.vault_list_files()
    assert [item["filename"] for item in listing["items"]] == ["a.md", "b.md"]
    assert listing["items"][1] == changed
    assert (listing["total"], listing["has_more"]) == (2, False)
    assert vault.vault_delete_file("b.md") == {}
    clock.now += 1
    assert vault.vault_upload_file("b.md", "")["created_at"] == "2026-01-01T00:00:02.500000Z"


def test_status_without_a_quota_is_large_and_adds_up() -> None:
    vault = MemoryVault()
    vault.vault_upload_file("a.md", "abc")
    assert vault.vault_status() == {
        "quota_bytes": UNLIMITED_BYTES,
        "used_bytes": 3,
        "available_bytes": UNLIMITED_BYTES - 3,
        "file_count": 1,
    }


def test_limits() -> None:
    vault = MemoryVault(quota_bytes=10, max_file_bytes=6)
    vault.vault_upload_file("a.md", "é" * 3)
    for name, text in (("b.md", "1234567"), ("b.md", "12345"), ("a.md", "1234567")):
        with pytest.raises(VaultError) as caught:
            vault.vault_upload_file(name, text)
        assert (caught.value.status, caught.value.code) == (400, "QUOTA_EXCEEDED")
        assert isinstance(caught.value, ColonyMemoryError)
    assert vault.files == {"a.md": "ééé"}
    vault.vault_upload_file("b.md", "1234")
    vault.vault_upload_file("a.md", "123456")  # what it replaces does not count
    assert vault.vault_status() == {"quota_bytes": 10, "used_bytes": 10, "available_bytes": 0, "file_count": 2}
    vault.quota_bytes = 5
    assert vault.vault_status()["available_bytes"] == 0
    vault.quota_bytes = vault.max_file_bytes = None
    vault.vault_upload_file("c.md", "x" * 100)


def test_refusals_name_the_file() -> None:
    vault = MemoryVault()
    with pytest.raises(VaultError, match=r"gone\.md") as caught:
        vault.vault_get_file("gone.md")
    assert (caught.value.status, caught.value.code) == (404, "NOT_FOUND")
    with pytest.raises(VaultError, match=r"bad\.md") as caught:
        vault.vault_upload_file("bad.md", "\ud800")
    assert (caught.value.status, caught.value.code) == (422, None)
    assert isinstance(caught.value.__cause__, UnicodeEncodeError)
    vault.vault_upload_file("a.md", "x")
    with pytest.raises(VaultError, match=r"a\.md") as caught:
        vault.vault_upload_file_if("a.md", "y", if_none_match="*")
    assert (caught.value.status, caught.value.code) == (412, "PRECONDITION_FAILED")
    with pytest.raises(ValueError, match="if_none_match"):
        vault.vault_upload_file_if("a.md", "y", if_none_match="etag")
    assert vault.files == {"a.md": "x"}


def test_files_may_be_changed_from_outside() -> None:
    clock = Clock()
    vault = MemoryVault(clock=clock)
    vault.vault_upload_file("a.md", "abc")
    etag = vault.vault_get_file("a.md")["etag"]
    clock.now += 60
    vault.files["a.md"] = "damaged"
    vault.files["planted.md"] = "\ud800"
    got = vault.vault_get_file("a.md")
    assert (got["content"], got["content_size"]) == ("damaged", 7)
    assert got["etag"] != etag
    assert (got["created_at"], got["updated_at"]) == ("2026-01-01T00:00:00.000000Z", "2026-01-01T00:01:00.000000Z")
    assert vault.vault_get_file("planted.md")["content_size"] == 3
    assert vault.vault_status()["used_bytes"] == 10
    with pytest.raises(VaultError):
        vault.vault_upload_file_if("a.md", "x", if_match=etag)
    del vault.files["a.md"]
    with pytest.raises(VaultError):
        vault.vault_get_file("a.md")
    clock.now += 60
    vault.files["a.md"] = "back"
    assert vault.vault_get_file("a.md")["created_at"] == "2026-01-01T00:02:00.000000Z"


def test_a_failed_condition_is_seen_by_exactly_the_losers() -> None:
    vault = MemoryVault()
    vault.vault_upload_file("p.json", "0")
    etag = vault.vault_get_file("p.json")["etag"]
    refused: list[int | None] = []

    def write(number: int) -> None:
        try:
            vault.vault_upload_file_if("p.json", f"writer {number}", if_match=etag)
        except VaultError as error:
            refused.append(error.status)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused == [412] * 7


def test_what_is_used_follows_every_change_from_inside_and_outside() -> None:
    vault, chance = MemoryVault(), random.Random(1)
    for n in range(2000):
        name, text = f"{chance.randrange(6)}.md", "x" * chance.randrange(9)
        what = chance.randrange(6)
        if what < 2:
            vault.vault_upload_file(name, text)
        elif what == 2 and name in vault.files:
            vault.vault_delete_file(name)
        elif what == 3:
            vault.files[name] = text
        elif what == 4:
            vault.files.pop(name, None)
        if n % 3:
            assert vault.vault_status()["used_bytes"] == sum(map(len, vault.files.values()))
