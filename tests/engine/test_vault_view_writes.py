import asyncio

import pytest
from colony_sdk import ColonyAPIError, ColonyServerError, ColonyValidationError
from small_vaults import (
    BARE_404,
    BUSY,
    CHANGED,
    NAME,
    NO_ANSWER,
    REFUSED,
    Coroutines,
    Dictionary,
    Tagged,
    applied,
    view,
)

from colony_memory import AsyncColonyMemory, ColonyMemory, Hint
from colony_memory._boundary import drive
from colony_memory._engine.store import ABSENT, AsyncVault, Changed, Unanswered, Vault
from colony_memory.exceptions import QuotaExceeded, VaultDenied, VaultError, VaultUnavailable

PROVEN = [{"filename": NAME, "content_size": 3}, {"result": {"filename": NAME, "content_size": 3}}]
UNPROVEN = [
    None,
    {},
    {"result": {}},
    [{"filename": NAME, "content_size": 3}],
    {"error": "storage backend unavailable"},
    {"filename": NAME},
    {"content_size": 3},
    {"filename": NAME, "content_size": "3"},
    {"filename": NAME, "content_size": True},
    {"filename": 7, "content_size": 3},
    {"result": {"content_size": 3}},
]
OTHERS = ["", "cmem.work.y.manifest.json", f"/{NAME}", NAME.upper()]
THERE = [{}, {NAME: "old"}]
#: What is there, what happens in place of an upload and of a read, what comes of it, and what was asked.
WRITES = [
    *(({}, {"upload": reply}, None, ["upload"]) for reply in PROVEN),
    *(({NAME: "new"}, {"upload": reply}, None, ["upload", "get"]) for reply in UNPROVEN),
    *(
        (files, {"upload": reply}, (Unanswered, "the reply does not say that the file was stored"), ["upload", "get"])
        for reply in UNPROVEN
        for files in THERE
    ),
    *(
        (files, {"upload": {**named, "content_size": size}}, (VaultError, f"the vault stored {size} bytes of 3"), [])
        for files in ({NAME: "new"},)
        for named in ({}, {"filename": NAME})
        for size in (0, 2, 4, 10**9)
    ),
    *(
        ({NAME: "new"}, {"upload": {key: other, "content_size": 3}}, (VaultError, f"says that it stored '{other}'"), [])
        for key in ("filename", "name")
        for other in OTHERS
    ),
    *(
        (
            files,
            {"upload": ColonyServerError("oops", status)},
            (VaultUnavailable, "ColonyServerError: oops"),
            ["upload", "get"],
        )
        for status in (500, 503)
        for files in THERE
    ),
    *(
        (files, {"upload": error}, (Unanswered, "it was not there yet when it was read back"), ["upload", "get"])
        for error in NO_ANSWER[2:]
        for files in THERE
    ),
    *(
        ({}, {"upload": error, "get": unread}, (Unanswered, "it could not be read back either"), ["upload", "get"])
        for error in NO_ANSWER
        for unread in (BUSY, TimeoutError(), {}, ColonyAPIError("no", 401))
    ),
    *(
        ({NAME: "new"}, {"upload": error}, (kind, "failed"), ["upload"])
        for error, kind in (
            (REFUSED, VaultError),
            (BARE_404, VaultError),
            (ColonyAPIError("long", 413), VaultError),
            (PermissionError(13, "denied"), VaultDenied),
            (ColonyAPIError("no", 403, {}, "KARMA_TOO_LOW"), VaultDenied),
            (ColonyValidationError("full", 400, {}, "QUOTA_EXCEEDED"), QuotaExceeded),
            (OSError(28, "full"), QuotaExceeded),
        )
    ),
]


@pytest.mark.parametrize(("files", "odd", "error", "calls"), WRITES)
def test_what_comes_of_a_write(files, odd, error, calls):
    vault, backend = view(files, **odd)
    if error is None:
        assert drive(vault.put(NAME, "new")) is None
        assert backend.calls == calls
        return
    with pytest.raises(error[0], match=error[1]) as caught:
        drive(vault.put(NAME, "new"))
    assert type(caught.value) is error[0]
    assert caught.value.message.startswith(f"writing {NAME} failed")
    if isinstance(caught.value, VaultError):
        assert caught.value.status == getattr(odd["upload"], "status", None)
    assert backend.files == files
    assert backend.calls[: len(calls)] == calls


@pytest.mark.parametrize("error", NO_ANSWER, ids=repr)
def test_a_write_that_was_applied_and_not_answered_is_done(error):
    vault, backend = view({NAME: "old"})
    backend.odd["upload"] = applied(backend, error)
    assert drive(vault.put(NAME, "new")) is None
    assert backend.calls == ["upload", "get"]


# --- writing on a condition ---


@pytest.mark.parametrize("match", [ABSENT, "mine"])
def test_a_condition_that_does_not_hold_changes_nothing(match):
    backend = Tagged({NAME: "theirs"})
    with pytest.raises(Changed, match=f"writing {NAME} failed: ColonyAPIError: changed") as caught:
        drive(Vault(backend).put(NAME, "new", match=match))
    assert (caught.value.status, caught.value.code) == (412, "PRECONDITION_FAILED")
    assert backend.files == {NAME: "theirs"}


@pytest.mark.parametrize("match", [ABSENT, "old"])
def test_a_condition_that_fails_on_ones_own_write_holds(match):
    """A client that repeats a request after a lost reply meets what it has written itself."""
    backend = Tagged({NAME: "old"})
    backend.odd["upload if"] = applied(backend, CHANGED)
    assert drive(Vault(backend).put(NAME, "new", match=match)) is None


# --- deleting ---


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("error", NO_ANSWER, ids=repr)
def test_a_delete_that_was_not_answered_is_looked_into(error, applied):
    vault, backend = view({NAME: "x"})
    backend.odd["delete"] = lambda: backend.files.clear() or error if applied else error
    if applied:
        drive(vault.delete(NAME))
        assert backend.calls == ["delete", "get", "list"]
        return
    with pytest.raises(VaultError, match=f"^deleting {NAME} failed"):
        drive(vault.delete(NAME))
    assert backend.calls == ["delete", "get"]


@pytest.mark.parametrize("error", [REFUSED, ColonyAPIError("slow", 429), ColonyAPIError("no", 403)])
def test_a_delete_that_was_refused_is_not_looked_into(error):
    vault, backend = view({}, delete=error)
    with pytest.raises(VaultError):
        drive(vault.delete(NAME))
    assert backend.calls == ["delete"]


# --- what leaves the package


@pytest.mark.parametrize("face", ["plain", "async"])
@pytest.mark.parametrize(("inside", "public"), [(Unanswered, VaultUnavailable), (Changed, VaultError)])
def test_an_error_of_the_inside_leaves_as_a_public_one(face, inside, public, monkeypatch):
    hint = Hint("verify")

    async def fail(self):
        raise inside("what happened", status=412, code="CODE", hint=hint)

    monkeypatch.setattr(Vault, "status", fail)
    monkeypatch.setattr(AsyncVault, "status", fail)
    with pytest.raises(public) as caught:
        if face == "plain":
            ColonyMemory(backend=Dictionary()).status()
        else:
            asyncio.run(AsyncColonyMemory(backend=Coroutines()).status())
    error = caught.value
    assert type(error) is public
    assert (error.message, error.status, error.code, error.hint) == ("what happened", 412, "CODE", hint)
