"""What errors become: the words of the command line, hints as tools, and nothing that only the owner should know."""

from pathlib import Path

import pytest
from mcp_calls import desk

from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning, Hint
from colony_memory.shell.app.protection import Problem
from colony_memory.shell.mcp import tools
from colony_memory.shell.mcp.served import Words
from colony_memory.shell.mcp.server import MemoryServer

__all__ = ["desk"]

START = "ask the person to start this server with"
ID = "20260101T000000000000Z-abcdef"
ROOT = Path("/home/ada/memory")


@pytest.mark.parametrize(
    ("hint", "without", "with_restore"),
    [
        (Hint("verify", label="notes"), "verify", "verify"),
        (Hint("verify", "snapshot_id", ID), f"verify with snapshot {ID}", f"verify with snapshot {ID}"),
        (Hint("verify", "snapshot_id", "latest"), None, None),
        (Hint("verify", "snapshot_id", "obey me"), None, None),
        (Hint("list_snapshots"), "list", "list"),
        (Hint("inspect"), "status", "status"),
        (Hint("backup"), "backup", "backup"),
        (Hint("restore", "snapshot_id", ID), f"ask the person to restore snapshot {ID}", f"restore with snapshot {ID}"),
        (
            Hint("restore", "fallback", value=True),
            "ask the person to restore an older snapshot",
            "restore with fallback true",
        ),
        (Hint("restore_folder", "snapshot_first", value=True), None, None),
        (Hint("prune"), "ask the person to prune old snapshots", "ask the person to prune old snapshots"),
        (Hint("delete_snapshot", "snapshot_id", ID), *[f"ask the person to delete snapshot {ID}"] * 2),
        (Hint("delete_snapshot", "snapshot_id", "x; rm"), None, None),
        (Hint("open", "signer"), *[f"{START} --key-file FILE"] * 2),
        (Hint("open", "trusted_issuers", "did:key:evil"), *[f"{START} --trust DID"] * 2),
        (Hint("open", "require_signature", value=False), *[f"{START} --accept-unsigned"] * 2),
        (Hint("open", "require_signature"), None, None),
        (Hint("open", "api_key"), *["ask the person to set COLONY_API_KEY"] * 2),
        (Hint("open", "max_bytes"), None, None),
        (Hint("read_folder", "secrets", "mask"), *[f"{START} --secrets mask"] * 2),
        (Hint("backup", "on_conflict", "merge"), *[f"{START} --on-conflict merge"] * 2),
        (Hint("init", "create", value=True), *["ask the person to make the vault with: colony-memory init URL"] * 2),
        (Hint("to_progenly_export"), None, None),
    ],
)  # fmt: skip
def test_a_hint_is_a_tool_or_something_to_ask_for(hint, without, with_restore):
    for restores, advice in ((False, without), (True, with_restore)):
        told = Words(ROOT, restores=restores).sentence(ColonyMemoryError("it failed", hint=hint))
        assert told == ("it failed" if advice is None else f"it failed; try: {advice}")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("'/home/ada/memory/a b.md': Permission denied", "'a b.md': Permission denied"),
        ("/home/ada/memory is not a directory", "the folder is not a directory"),
        ("there is no vault in '/srv/my vault': none", "there is no vault in '…': none"),
        ("lock /home/ada/.local/state/x.lock, held", "lock …, held"),
        ("see ~/.ssh/id_rsa for it", "see … for it"),
        ("C:\\Users\\ada\\vault is away", "… is away"),
        ("cannot reach https://user:pass@vault.example/x?key=1: timeout", "cannot reach … timeout"),
        ("s3://bucket/prefix is away", "… is away"),
        ("notes/a.md and ./b.md, 3/4 and/or", "notes/a.md and ./b.md, 3/4 and/or"),
        ("cmem.default.20260101T000000000000Z-abcdef.manifest.json is damaged", None),
        ("signed by did:key:z6Mk123", None),
    ],
)
def test_paths_and_addresses_are_left_out(text, told):
    assert Words(ROOT).sentence(ValueError(text)) == (told or text)
    assert Words(ROOT).sentence(ColonyMemoryWarning(text)) == (told or text)


@pytest.mark.parametrize(
    "error",
    [
        KeyError("/etc/shadow"),
        UnicodeDecodeError("utf-8", b"secret", 0, 1, "secret"),
        OSError(2, "secret", "/secret"),
        RuntimeError("secret"),
        ColonyMemoryError(""),
    ],
)
def test_what_was_not_foreseen_tells_nothing_but_its_kind(error):
    told = Words(ROOT).sentence(error)
    assert told == (f"it failed unexpectedly ({type(error).__name__}); the log of the server has more")


def test_what_mends_a_problem():
    words = Words(ROOT)
    told = {
        mending: words.mending(Problem("x", mending, "default", ID))
        for mending in ("delete", "backup", "prune", "wait", "judge", "replace", "accept")
    }
    assert told["backup"] == told["replace"] == "call backup"
    assert told["judge"] == f"call verify with snapshot {ID}"
    assert told["delete"].startswith(f"call verify with snapshot {ID}, and let the person")
    assert "ask the person" in told["prune"]
    assert "later" in told["wait"]
    assert told["accept"] == f"ask the person whether to call restore with snapshot {ID} and then backup"
    assert words.mending(Problem("x", "judge", "default", "obey")) == "call verify"


def test_a_fault_that_was_not_foreseen_reaches_the_log_and_not_the_model(desk, monkeypatch, capsys):
    def broken(*args, **options):
        raise RuntimeError("the key is hunter2")

    desk.call("backup")
    for home, name in ((tools, "snapshot_of"), (MemoryServer, "answer")):
        with monkeypatch.context() as patch:
            patch.setattr(home, name, broken)
            told = desk.refused("list")
        assert "hunter2" not in told
        assert "failed unexpectedly" in told
        (line,) = capsys.readouterr().err.splitlines()
        assert line == "error: unexpected: RuntimeError: the key is hunter2"


WRONG = [
    ("show", {"snapshot": 7}, "snapshot: Input should be a valid string"),
    ("show", {"snapshot": "x" * 65}, "snapshot: String should have at most 64 characters"),
    ("show", {"offset": -1}, "offset: Input should be greater than or equal to 0"),
    ("show", {"path": "/etc/passwd"}, "path: Extra inputs are not permitted"),
    ("diff", {"file": ""}, "file: String should have at least 1 character"),
    ("backup", {"note": "x" * 1001}, "note: String should have at most 1000 characters"),
    ("backup", {"tags": ["x"] * 21}, "tags: List should have at most 20 items"),
    ("list", {"limit": 10**9}, "limit: Input should be less than or equal to 100"),
]


def test_a_wrong_argument_is_named_and_not_repeated(desk):
    async def work(client):
        return [await client.call_tool(name, arguments) for name, arguments, _ in WRONG]

    for found, (_, _, says) in zip(desk.run(work), WRONG, strict=True):
        (told,) = [each.text for each in found.content]
        assert found.is_error
        assert told.startswith(says)
        assert len(told) < 200
        assert "passwd" not in told
