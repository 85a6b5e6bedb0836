from __future__ import annotations

import asyncio
from typing import Any

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
from colony_memory._engine.faces import AsyncVault, SyncVault
from colony_memory._engine.store import ABSENT, Changed, Unanswered
from colony_memory.exceptions import (
    QuotaExceeded,
    VaultDenied,
    VaultError,
    VaultUnavailable,
)


@pytest.mark.parametrize(
    "reply",
    [
        {"filename": NAME, "content_size": 3},
        {"result": {"filename": NAME, "content_size": 3}},
    ],
)
def test_a_write_that_the_reply_proves_is_not_read_back(reply: Any) -> None:
    vault, backend = view(upload=reply)
    assert drive(vault.put(NAME, "é1")) is None
    assert backend.calls == ["upload"]


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


@pytest.mark.parametrize("reply", UNPROVEN, ids=repr)
def test_a_write_that_the_reply_does_not_prove_is_read_back(reply: Any) -> None:
    vault, backend = view({NAME: "é1"}, upload=reply)
    assert drive(vault.put(NAME, "é1")) is None
    assert backend.calls == ["upload", "get"]


@pytest.mark.parametrize("files", [{}, {NAME: "é0"}])
@pytest.mark.parametrize("reply", UNPROVEN, ids=repr)
def test_a_write_that_nothing_proves_is_not_done(reply: Any, files: dict[str, str]) -> None:
    vault, backend = view(files, upload=reply)
    with pytest.raises(Unanswered, match=f"writing {NAME} failed: the reply does not say that the file was stored"):
        drive(vault.put(NAME, "é1"))
    assert backend.files == files


@pytest.mark.parametrize("size", [0, 2, 4, 10**9])
@pytest.mark.parametrize("named", [{}, {"filename": NAME}])
def test_a_write_of_another_size_did_not_happen(named: dict[str, str], size: int) -> None:
    with pytest.raises(VaultError, match=f"writing {NAME} failed: the vault stored {size} bytes of 3") as caught:
        drive(view({NAME: "é1"}, upload={**named, "content_size": size})[0].put(NAME, "é1"))
    assert not isinstance(caught.value, Unanswered)


@pytest.mark.parametrize("key", ["filename", "name"])
@pytest.mark.parametrize("other", ["", "cmem.work.y.manifest.json", f"/{NAME}", NAME.upper()])
def test_a_write_of_another_file_did_not_happen(key: str, other: str) -> None:
    with pytest.raises(VaultError, match=f"writing {NAME} failed: the vault says that it stored '{other}'") as caught:
        drive(view({NAME: "é1"}, upload={key: other, "content_size": 3})[0].put(NAME, "é1"))
    assert not isinstance(caught.value, Unanswered)


@pytest.mark.parametrize("error", NO_ANSWER, ids=repr)
def test_a_write_that_was_applied_and_not_answered_is_done(error: Exception) -> None:
    vault, backend = view({NAME: "old"})
    backend.odd["upload"] = applied(backend, error)
    assert drive(vault.put(NAME, "new")) is None
    assert backend.calls == ["upload", "get"]


@pytest.mark.parametrize("files", [{NAME: "old"}, {}])
@pytest.mark.parametrize("status", [500, 503])
def test_a_write_that_failed_and_is_not_there_did_not_happen(files: dict[str, str], status: int) -> None:
    vault, backend = view(files, upload=ColonyServerError("oops", status))
    with pytest.raises(VaultUnavailable, match=f"^writing {NAME} failed: ColonyServerError: oops") as caught:
        drive(vault.put(NAME, "new"))
    assert type(caught.value) is VaultUnavailable
    assert caught.value.status == status
    assert backend.files == files
    assert backend.calls[:2] == ["upload", "get"]


@pytest.mark.parametrize("files", [{NAME: "old"}, {}])
@pytest.mark.parametrize("error", NO_ANSWER[2:], ids=repr)
def test_a_write_without_any_answer_may_still_be_under_way(error: Exception, files: dict[str, str]) -> None:
    vault, backend = view(files, upload=error)
    with pytest.raises(Unanswered, match=f"^writing {NAME} failed: .*; it was not there yet when it was read back"):
        drive(vault.put(NAME, "new"))
    assert backend.files == files
    assert backend.calls[:2] == ["upload", "get"]


@pytest.mark.parametrize("unread", [BUSY, TimeoutError(), {}, ColonyAPIError("no", 401)])
@pytest.mark.parametrize("error", NO_ANSWER, ids=repr)
def test_a_write_that_can_not_be_read_back_is_unanswered(error: Exception, unread: Any) -> None:
    with pytest.raises(Unanswered, match=f"writing {NAME} failed: .*; it could not be read back either") as caught:
        drive(view(upload=error, get=unread)[0].put(NAME, "new"))
    assert caught.value.status == getattr(error, "status", None)
    assert isinstance(caught.value.__cause__, VaultError)
    assert caught.value.__cause__.__cause__ is error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (REFUSED, VaultError),
        (BARE_404, VaultError),
        (ColonyAPIError("long", 413), VaultError),
        (PermissionError(13, "denied"), VaultDenied),
        (ColonyAPIError("no", 403, {}, "KARMA_TOO_LOW"), VaultDenied),
        (ColonyValidationError("full", 400, {}, "QUOTA_EXCEEDED"), QuotaExceeded),
        (OSError(28, "full"), QuotaExceeded),
    ],
)
def test_a_refusal_that_was_read_is_final(error: Exception, kind: type[Exception]) -> None:
    vault, backend = view({NAME: "new"}, upload=error)
    with pytest.raises(kind) as caught:
        drive(vault.put(NAME, "new"))
    assert type(caught.value) is kind
    assert backend.calls == ["upload"]


# --- writing on a condition ---


@pytest.mark.parametrize("match", [ABSENT, "mine"])
def test_a_condition_that_does_not_hold_changes_nothing(match: str) -> None:
    backend = Tagged({NAME: "theirs"})
    with pytest.raises(Changed, match=f"writing {NAME} failed: ColonyAPIError: changed") as caught:
        drive(SyncVault(backend).put(NAME, "new", match=match))
    assert (caught.value.status, caught.value.code) == (412, "PRECONDITION_FAILED")
    assert backend.files == {NAME: "theirs"}


@pytest.mark.parametrize("match", [ABSENT, "old"])
def test_a_condition_that_fails_on_ones_own_write_holds(match: str) -> None:
    """A client that repeats a request after a lost reply meets what it has written itself."""
    backend = Tagged({NAME: "old"})
    backend.odd["upload if"] = applied(backend, CHANGED)
    assert drive(SyncVault(backend).put(NAME, "new", match=match)) is None


# --- deleting ---


@pytest.mark.parametrize("error", NO_ANSWER, ids=repr)
def test_a_delete_that_was_applied_and_not_answered_is_done(error: Exception) -> None:
    vault, backend = view({NAME: "x"})

    def delete() -> Exception:
        backend.files.clear()
        return error

    backend.odd["delete"] = delete
    drive(vault.delete(NAME))
    assert backend.calls == ["delete", "get", "list"]


@pytest.mark.parametrize("error", NO_ANSWER, ids=repr)
def test_a_delete_that_was_not_applied_is_its_error(error: Exception) -> None:
    vault, backend = view({NAME: "x"}, delete=error)
    with pytest.raises(VaultError, match=f"^deleting {NAME} failed"):
        drive(vault.delete(NAME))
    assert backend.calls == ["delete", "get"]


@pytest.mark.parametrize(
    "error",
    [
        REFUSED,
        ColonyAPIError("slow", 429),
        ColonyAPIError("no", 403),
    ],
)
def test_a_delete_that_was_refused_is_not_looked_into(error: Exception) -> None:
    vault, backend = view({}, delete=error)
    with pytest.raises(VaultError):
        drive(vault.delete(NAME))
    assert backend.calls == ["delete"]


# --- what leaves the package


@pytest.mark.parametrize("face", ["plain", "async"])
@pytest.mark.parametrize(("inside", "public"), [(Unanswered, VaultUnavailable), (Changed, VaultError)])
def test_an_error_of_the_inside_leaves_as_a_public_one(
    face: str, inside: type[VaultError], public: type[VaultError], monkeypatch: pytest.MonkeyPatch
) -> None:
    hint = Hint("verify")

    async def fail(self: Any) -> Any:
        raise inside("what happened", status=412, code="CODE", hint=hint)

    monkeypatch.setattr(SyncVault, "status", fail)
    monkeypatch.setattr(AsyncVault, "status", fail)
    with pytest.raises(public) as caught:
        if face == "plain":
            ColonyMemory(backend=Dictionary()).status()
        else:
            asyncio.run(AsyncColonyMemory(backend=Coroutines()).status())
    error = caught.value
    assert type(error) is public
    assert (error.message, error.status, error.code, error.hint) == ("what happened", 412, "CODE", hint)
