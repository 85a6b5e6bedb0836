import pytest
from faces import PlainVault

from colony_memory.exceptions import VaultUnavailable
from colony_memory.testing import FakeVault, FaultyVault
from colony_memory.testing.faults import VERBS, ProcessDied
from colony_memory.vaults import ConditionalUpload, FreeSpace, OperationBudget, PrefixListing, VaultBackend
from colony_memory.vaults.memory import MemoryVault


def use(vault, verb, filename="a.md"):
    given = {"get": (filename,), "upload": (filename, "new"), "delete": (filename,)}.get(verb, ())
    method = {"status": "vault_status", "list": "vault_list_files"}.get(verb, f"vault_{verb}_file")
    getattr(vault, method)(*given)


@pytest.fixture
def faulty():
    vault = FaultyVault(MemoryVault())
    vault.vault.files["a.md"] = "old"
    return vault


@pytest.mark.parametrize(
    "inner", [PlainVault(MemoryVault()), MemoryVault(), FakeVault()], ids=lambda inner: type(inner).__name__
)
def test_optional_methods_are_there_exactly_when_the_vault_has_them(inner):
    faulty = FaultyVault(inner)
    assert isinstance(faulty, FaultyVault)
    assert isinstance(faulty, VaultBackend)
    for protocol in (ConditionalUpload, PrefixListing, OperationBudget, FreeSpace):
        assert isinstance(faulty, protocol) == isinstance(inner, protocol)
    for method in ("vault_upload_file_if", "vault_list_prefix", "vault_operations_left", "vault_free_bytes"):
        assert hasattr(faulty, method) == hasattr(inner, method)


def test_optional_methods_count_as_upload_and_list():
    faulty = FaultyVault(FakeVault())
    faulty.vault_upload_file_if("a.md", "1", if_none_match="*")
    etag = faulty.vault_get_file("a.md")["etag"]
    faulty.vault_upload_file_if("a.md", "2", if_match=etag)
    assert faulty.vault_list_prefix("a")["total"] == 1
    assert faulty.vault_operations_left() == 58
    assert faulty.calls == [("upload", "a.md"), ("get", "a.md"), ("upload", "a.md"), ("list", "a")]
    faulty.fail("upload", OSError)
    faulty.fail("list", OSError, match=lambda prefix: prefix == "a")
    for call in (lambda: faulty.vault_upload_file_if("a.md", "3"), lambda: faulty.vault_list_prefix("a")):
        with pytest.raises(OSError, match="injected"):
            call()
    assert faulty.vault_list_files()["total"] == 1


def test_what_an_error_may_be(faulty):
    error, made = VaultUnavailable("down", status=503), iter([KeyError("1"), ValueError("2")])
    for given, kind, words in (
        (error, VaultUnavailable, "down"),
        (VaultUnavailable, VaultUnavailable, r"get a\.md"),
        (lambda: next(made), KeyError, "1"),
        (lambda: next(made), ValueError, "2"),
        (KeyboardInterrupt("stop"), KeyboardInterrupt, "stop"),
    ):
        faulty.fail("get", given, times=1)
        with pytest.raises(kind, match=words) as caught:
            faulty.vault_get_file("a.md")
        assert given is not error or caught.value is error


def outcomes(faulty, names):
    """One letter a read: ``x`` for a fault, ``.`` for none."""
    seen = ""
    for name in names:
        try:
            faulty.vault_get_file(name)
            seen += "."
        except OSError:
            seen += "x"
    return seen


def test_match_skip_and_times():
    faulty = FaultyVault(MemoryVault())
    faulty.vault.files.update(dict.fromkeys("abc", ""))
    first = faulty.fail("get", OSError, match="a", skip=1, times=2)
    assert outcomes(faulty, "abacaba") == "..x.x.."
    assert (first.fired, first.times) == (2, 0)
    second = faulty.fail("get", OSError, match=lambda name: name in "bc", skip=2)
    assert outcomes(faulty, "abcabcabc") == "....xx.xx"
    assert second.fired == 4


def test_after_applies_the_call_first(faulty):
    lost = faulty.fail("upload", TimeoutError, after=True, times=1)
    with pytest.raises(TimeoutError):
        faulty.vault_upload_file("a.md", "new")
    assert faulty.vault.files == {"a.md": "new"}
    faulty.vault_upload_file("a.md", "newer")
    assert lost.fired == 1
    gone = faulty.fail("delete", TimeoutError, after=True)
    with pytest.raises(TimeoutError):
        faulty.vault_delete_file("a.md")
    assert faulty.vault.files == {}
    with pytest.raises(Exception, match="no such file") as caught:
        faulty.vault_delete_file("a.md")  # the vault's own refusal comes first
    assert (caught.value.status, gone.fired) == (404, 1)


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_stop_after(n, applied):
    faulty = FaultyVault(MemoryVault())
    faulty.vault_status()
    faulty.stop_after(n, applied=applied)
    for number in range(1, n):
        faulty.vault_upload_file(f"{number}.md", "x")
    with pytest.raises(ProcessDied) as caught:
        faulty.vault_upload_file(f"{n}.md", "x")
    assert caught.value.call == n + 1
    for verb in VERBS:
        with pytest.raises(ProcessDied):
            use(faulty, verb, "later.md")
    assert len(faulty.vault.files) == n - 1 + applied
    assert faulty.count == len(faulty.calls) == 1 + n + len(VERBS)
    faulty.heal()
    assert faulty.vault_list_files()["total"] == n - 1 + applied


def test_hooks_run_before_the_call_and_may_use_the_vault(faulty):
    def other_writer():
        faulty.vault_upload_file("a.md", "theirs")

    hook = faulty.hook("get", other_writer, match="a")
    assert faulty.vault_get_file("a.md")["content"] == "theirs"
    assert faulty.calls == [("get", "a.md"), ("upload", "a.md")]
    faulty.vault_upload_file("a.md", "ours")
    assert faulty.vault_get_file("a.md")["content"] == "ours"  # once is the default
    assert hook.fired == 1
    always = faulty.hook("*", lambda: None, times=None)
    for verb in VERBS:
        use(faulty, verb)
    assert always.fired == 5


def test_lies(faulty):
    faulty.lie("list", lambda reply: {**reply, "has_more": True}, times=1)
    faulty.lie("get", lambda reply: {**reply, "content": reply["content"] + "!"}, match="a")
    faulty.lie("get", lambda reply: {**reply, "content": reply["content"] + "?"})
    assert faulty.vault_list_files()["has_more"] is True
    assert faulty.vault_list_files()["has_more"] is False
    assert faulty.vault_get_file("a.md")["content"] == "old!?"
    assert faulty.vault.files == {"a.md": "old"}


def test_what_makes_no_sense_is_refused(faulty):
    for words, call in (
        ("read", lambda: faulty.fail("read", OSError)),
        ("times", lambda: faulty.fail("get", OSError, times=0)),
        ("skip", lambda: faulty.fail("get", OSError, skip=-1)),
        ("counted from 1", lambda: faulty.stop_after(0, applied=False)),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    assert faulty.vault_get_file("a.md")["content"] == "old"
