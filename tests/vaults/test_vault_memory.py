import fnmatch
import time

import pytest
from faces import Clock, PlainVault

from colony_memory.exceptions import ColonyMemoryError, VaultError
from colony_memory.testing import VaultBackendTests
from colony_memory.vaults.memory import MemoryVault


class Plain(PlainVault):
    """The five methods, replies under ``result``, listings of bare names."""

    def __init__(self):
        super().__init__(MemoryVault())

    def vault_status(self):
        return {"result": super().vault_status()}

    def vault_list_files(self):
        return [item["filename"] for item in super().vault_list_files()["items"]]

    def vault_get_file(self, filename):
        return {"result": {"content": super().vault_get_file(filename)["content"]}}


# The suite must be able to fail: vaults with one defect each, and the test that has to find it.


def made(**methods):
    return type("Defective", (MemoryVault,), methods)


def replying(method, change):
    """A vault that answers a method otherwise."""
    usual = getattr(MemoryVault, method)
    return made(**{method: lambda self, *given, **options: change(usual(self, *given, **options))})


def asking(method, change, **fixed):
    """A vault that takes other arguments for what it is given."""
    usual = getattr(MemoryVault, method)
    return made(**{method: lambda self, *given, **options: usual(self, *change(self, *given), **{**options, **fixed})})


def both(change):
    """A vault that writes and reads under another name."""
    upload, get = MemoryVault.vault_upload_file, MemoryVault.vault_get_file
    return made(
        vault_upload_file=lambda self, name, content: upload(self, change(name), content),
        vault_get_file=lambda self, name: get(self, change(name)),
    )


class Lacking:
    vault_status = vault_list_files = vault_get_file = vault_upload_file = MemoryVault.vault_status


class CopiesTheIndex(MemoryVault):
    def vault_upload_file(self, filename, content):
        files = dict(self.files)
        time.sleep(0.002)
        files[filename] = content
        self.files = files
        return {}


class WritesInTwoHalves(MemoryVault):
    def vault_upload_file(self, filename, content):
        super().vault_upload_file(filename, content[: len(content) // 2])
        time.sleep(0.002)
        return super().vault_upload_file(filename, content)


class ChecksThenWrites(MemoryVault):
    """Two writers may both find the condition true."""

    def vault_upload_file_if(self, filename, content, *, if_match=None, if_none_match=None):
        old = self._entry(filename)
        if (if_none_match and old) or (if_match and (old is None or old["etag"] != if_match)):
            raise VaultError("changed", status=412)
        time.sleep(0.005)
        return super().vault_upload_file(filename, content)


def items(change):
    return replying("vault_list_files", lambda reply: {"items": change(reply["items"])})


#: What is wrong with a vault, and the test of the suite that has to find it.
DEFECTS = {
    "lacks a method": (Lacking, "test_has_the_five_methods"),
    "translates newlines": (
        replying("vault_get_file", lambda reply: {**reply, "content": reply["content"].replace("\r\n", "\n")}),
        "test_text_comes_back_exactly",
    ),
    "gives bytes": (
        replying("vault_get_file", lambda reply: {**reply, "content": reply["content"].encode()}),
        "test_text_comes_back_exactly",
    ),
    "cuts at 64 K": (
        asking("vault_upload_file", lambda _, name, text: (name, text[:65536])),
        "test_text_comes_back_exactly",
    ),
    "replaces surrogates": (
        asking("vault_upload_file", lambda _, name, text: (name, text.encode("utf-8", "replace").decode())),
        "test_text_that_utf8_cannot_encode_is_exact_or_refused",
    ),
    "counts characters": (
        made(
            vault_upload_file=lambda self, name, text: {
                **MemoryVault.vault_upload_file(self, name, text),
                "content_size": len(text),
            }
        ),
        "test_upload_tells_the_size",
    ),
    "answers None": (replying("vault_upload_file", lambda reply: None), "test_upload_tells_the_size"),
    "overwrites in place": (
        asking("vault_upload_file", lambda self, name, text: (name, text + self.files.get(name, "")[len(text) :])),
        "test_replace_is_whole",
    ),
    "lists twice": (items(lambda found: found * 2), "test_replace_is_whole"),
    "answers for a missing file": (
        made(vault_get_file=lambda self, name: {"content": self.files.get(name, "")}),
        "test_missing_file_is_a_404",
    ),
    "deletes nothing quietly": (
        made(vault_delete_file=lambda self, name: self.files.pop(name, None) and {}),
        "test_missing_file_is_a_404",
    ),
    "folds names": (both(str.lower), "test_names_are_compared_exactly"),
    "decodes names": (both(lambda name: name.replace("%20", " ")), "test_odd_names"),
    "deletes nothing": (made(vault_delete_file=lambda self, name: self._find(name) and {}), "test_delete_is_final"),
    "lists a page silently": (
        replying("vault_list_files", lambda reply: {"items": reply["items"][:20], "total": len(reply["items"][:20])}),
        "test_listing_names_every_file",
    ),
    "lists a page, and no number": (
        replying("vault_list_files", lambda reply: {"items": reply["items"][:20], "total": None}),
        "test_listing_names_every_file",
    ),
    "lists sizes alone": (
        items(lambda found: [{"content_size": item["content_size"]} for item in found]),
        "test_listing_names_every_file",
    ),
    "lists wrong sizes": (
        items(lambda found: [{**item, "content_size": item["content_size"] + 1} for item in found]),
        "test_listing_names_every_file",
    ),
    "lists content": (
        made(vault_list_files=lambda self: {"items": [self.vault_get_file(name) for name in self.files]}),
        "test_listing_names_every_file",
    ),
    "status without keys": (replying("vault_status", lambda _: {"used_bytes": 0}), "test_status"),
    "status never moves": (replying("vault_status", lambda reply: dict.fromkeys(reply, 0)), "test_status"),
    "loses uploads of others": (CopiesTheIndex, "test_concurrent_calls"),
    "writes in two halves": (WritesInTwoHalves, "test_concurrent_writers_leave_one_text_whole"),
    "ignores If-Match": (
        asking("vault_upload_file_if", lambda _, *given: given, if_match=None),
        "test_conditional_upload_on_the_etag",
    ),
    "one etag": (
        made(
            vault_get_file=lambda self, name: {**MemoryVault.vault_get_file(self, name), "etag": "1"},
            vault_upload_file_if=lambda self, name, text, **_: self.vault_upload_file(name, text),
        ),
        "test_conditional_upload_on_the_etag",
    ),
    "ignores If-None-Match": (
        asking("vault_upload_file_if", lambda _, *given: given, if_none_match=None),
        "test_conditional_upload_on_absence",
    ),
    "checks, then writes": (ChecksThenWrites, "test_conditional_upload_has_one_winner"),
    "takes a prefix for a pattern": (
        made(
            vault_list_prefix=lambda self, prefix: {
                "items": [
                    item
                    for item in self.vault_list_files()["items"]
                    if fnmatch.fnmatchcase(item["filename"], f"{prefix}*")
                ]
            }
        ),
        "test_prefix_listing",
    ),
    "looks up everything": (
        made(vault_look_up_files=lambda self, names: self.vault_list_files()),
        "test_lookup_of_files",
    ),
    "deletes the first alone": (
        made(vault_delete_files=lambda self, names: self.vault_delete_file(names[0])),
        "test_deletion_of_many",
    ),
    "room in text": (made(vault_free_bytes=lambda self: "plenty"), "test_free_space"),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_the_suite_finds_the_defect(defect):
    broken, test = DEFECTS[defect]
    # Of lost uploads the missing file may show as a 404 from the vault before a check sees it.
    with pytest.raises((AssertionError, VaultError) if broken is CopiesTheIndex else AssertionError):
        getattr(VaultBackendTests(), test)(broken())


def test_every_test_of_the_suite_has_a_defect_that_fails_it():
    tests = {name for name in dir(VaultBackendTests) if name.startswith("test_")}
    assert tests == {test for _, test in DEFECTS.values()}


def test_a_listing_that_says_it_is_cut_passes():
    class Cut(MemoryVault):
        def vault_list_files(self):
            reply = super().vault_list_files()
            return {"items": reply["items"][:20], "total": reply["total"]}

    VaultBackendTests().test_listing_names_every_file(Cut())


def test_a_listing_may_have_nothing_where_it_tells_no_number():
    unknown = replying(
        "vault_list_files",
        lambda reply: {"items": [{**item, "content_size": None} for item in reply["items"]], "total": None},
    )
    VaultBackendTests().test_listing_names_every_file(unknown())


@pytest.mark.parametrize("test", ["test_conditional_upload_on_absence", "test_prefix_listing"])
def test_optional_methods_are_skipped_where_they_are_missing(test):
    with pytest.raises(pytest.skip.Exception, match="Plain has no"):
        getattr(VaultBackendTests(), test)(Plain())


def test_limits():
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


def test_refusals_name_the_file():
    vault = MemoryVault()
    vault.files["a.md"] = "x"
    for call, name, told in (
        (lambda: vault.vault_get_file("gone.md"), "gone.md", (404, "NOT_FOUND")),
        (lambda: vault.vault_upload_file("bad.md", "\ud800"), "bad.md", (422, None)),
        (lambda: vault.vault_upload_file_if("a.md", "y", if_none_match="*"), "a.md", (412, "PRECONDITION_FAILED")),
    ):
        with pytest.raises(VaultError, match=name) as caught:
            call()
        assert (caught.value.status, caught.value.code) == told
    with pytest.raises(ValueError, match="if_none_match"):
        vault.vault_upload_file_if("a.md", "y", if_none_match="etag")
    assert vault.files == {"a.md": "x"}


def test_files_may_be_changed_from_outside():
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
