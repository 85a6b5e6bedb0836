"""Hints of the library as the command line says them: commands that can be pasted as they stand."""

import ast
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("click")

import colony_memory
from colony_memory import ColonyMemory, Hint
from colony_memory.exceptions import (
    ColonyMemoryWarning,
    QuotaExceeded,
    RollbackDetected,
    SnapshotNotFound,
    UntrustedSnapshot,
    VaultUnavailable,
    bad_argument,
)
from colony_memory.shell.cli import app, program
from colony_memory.shell.words import errors as said
from colony_memory.shell.words.errors import OPTIONS, SETTINGS, Asked, address_for, quoted, worded

ID = "20261101T130000300000Z-abcdef"
PACKAGE = Path(colony_memory.__file__).parent


def options_of(verb):
    found = program.verb_of(verb)
    return {flag for each in found.params for flag in each.opts}


def asked(*argv, environment=(), **params):
    verb = argv[0] if argv else ""
    known = {"vault": None, "key_file": None, "trust": None, "witness": None, "label": "default", **params}
    flags = options_of(verb) if verb in app.VERBS else ()
    return Asked(argv, verb, known, frozenset(environment), frozenset(flags))


# --- which command


@pytest.mark.parametrize(
    ("hint", "run", "line"),
    [
        # Another verb: with the vault and the trust of this run, and the label that the hint is of.
        (Hint("list_snapshots", label="a"), asked("show", label="b"), "colony-memory list --label a"),
        (Hint("prune", "keep", 2), asked("backup", "m", vault="v w"), "colony-memory prune --keep 2 --vault 'v w'"),
        (Hint("prune", "keep"), asked("watch", "m"), "colony-memory prune --keep N"),
        (Hint("prune"), asked("delete"), "colony-memory prune --leftovers"),
        (Hint("verify", "snapshot_id", ID), asked("show"), f"colony-memory verify {ID}"),
        (Hint("restore", "snapshot_id", ID), asked("show"), f"colony-memory restore {ID} DIR"),
        (Hint("restore", "fallback", value=True), asked("show"), "colony-memory restore --fallback DIR"),
        (Hint("backup"), asked("status"), "colony-memory backup PATH"),
        (
            Hint("list_snapshots"),
            asked("show", vault="v", key_file="k", trust=["d", "e"], witness="w", accept_unsigned=True),
            "colony-memory list --vault v --key-file k --trust d --trust e --witness w --accept-unsigned",
        ),
        # The same verb, or an argument of the client: the run as it was, and more.
        (
            Hint("restore", "fallback", value=True),
            asked("restore", "out dir", "--vault", "v", target=["out dir"], vault="v"),
            "colony-memory restore 'out dir' --vault v --fallback",
        ),
        (
            Hint("restore", "snapshot_id", ID),
            asked("restore", "latest", "-out", target=["latest", "-out"], vault="v"),
            f"colony-memory restore {ID} ./-out --vault v",
        ),
        (Hint("backup"), asked("watch", "a", "--every", "1h"), "colony-memory watch a --every 1h"),
        (Hint("open", "trusted_issuers"), asked("list", "--", "x"), "colony-memory list --trust DID -- x"),
        (
            Hint("open", "accept_legacy_pointer", value=True),
            asked("list", environment=("vault", "label", "trust"), vault="v", label="work", trust=["d"]),
            "colony-memory list --trust d --vault v --label work --accept-legacy-pointer",
        ),
        (Hint("read_folder", "secrets", "warn"), asked("backup", "m"), "colony-memory backup m --secrets warn"),
        # One of two vaults, and nothing says which.
        (Hint("list_snapshots"), asked("copy", "--to", "v"), "colony-memory list --vault URL"),
        (Hint("backup", "on_conflict", "merge"), asked("backup", "m"), "colony-memory backup m --on-conflict merge"),
        (Hint("merge", "snapshot_id", ID), asked("backup", paths=["."]), f"colony-memory restore {ID} --merge ."),
        (Hint("merge", "snapshot_id", ID), asked("watch", paths=[".", "/"]), f"colony-memory restore {ID} --merge DIR"),
        (Hint("init", "create"), asked("list", vault="v w", key_file="k"), "colony-memory init --vault 'v w'"),
        # What is set in the environment.
        (Hint("open", "api_key"), asked("list"), "set COLONY_API_KEY"),
        # What the command line has no word for.
        (Hint("open", "max_bytes"), asked("restore", "m"), None),
        (Hint("open", "require_signature", value=True), asked("list"), None),
        (Hint("open", "signer"), asked("keygen", "f"), None),
        (Hint("read_folder", "secrets", "mask"), asked("restore", "m"), None),
        (Hint("no_such_verb"), asked("list"), None),
        (Hint("list_snapshots"), Asked(("list",)), None),  # the options were not read yet
        # Ids that somebody made up may be the beginning of another one's, or a word that names one.
        (Hint("delete_snapshot", "snapshot_id", "latest"), asked("status"), None),
        (Hint("delete_snapshot", "snapshot_id", ID[:8]), asked("status"), None),
        (Hint("verify", "snapshot_id", "$(reboot)"), asked("show"), None),
    ],
)
def test_what_is_said(hint, run, line):
    assert worded(hint, run) == line


def test_every_hint_of_the_library_has_its_words():
    found = 0
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Hint":
                action, option = [*(each.value for each in node.args if isinstance(each, ast.Constant)), None][:2]
                assert option in {None, "max_bytes", *OPTIONS, *SETTINGS}, f"{path}:{node.lineno}"
                verb = {**said.VERBS, "open": "list", "read_folder": "backup", "restore_folder": "restore"}[action]
                assert OPTIONS.get(option, "").partition(" ")[0] in {"", *options_of(verb)}, f"{path}:{node.lineno}"
                found += 1
    assert found > 10
    for verb in {*said.VERBS.values()} - {"init"}:
        assert options_of(verb) >= said.WHERE


# --- quoting

HOSTILE = [
    "my vault",
    "it's",
    "two\nlines",
    "$(touch pwned)",
    "`touch pwned`",
    "back\\'slash\n",
    "-rf",
    "~root",
    "!!",
    "\x1b[2J\x1b]0;title\x07",
    "caf\u00e9 \u200b\u2028",
    "bytes \udcff\udc80",
    "",
]


@pytest.mark.parametrize("word", HOSTILE, ids=ascii)
def test_a_word_comes_through_the_shell_as_it_is(word, tmp_path):
    shell = shutil.which("bash")
    if shell is None:
        pytest.skip("no bash")
    line = quoted(word)
    assert line.isprintable()
    code = (
        f"{shlex.quote(sys.executable)} -c 'import os, sys; sys.stdout.buffer.write(os.fsencode(sys.argv[1]))' {line}"
    )
    done = subprocess.run([shell, "-c", code.encode()], cwd=tmp_path, capture_output=True, check=True)
    assert done.stdout == word.encode("utf-8", "surrogateescape")
    assert list(tmp_path.iterdir()) == []


# --- as a verb says them


def raising(error):
    def fail(self, **_):
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (
            QuotaExceeded("full", hint=Hint("prune", "keep")),
            1,
            "colony-memory prune --keep N --label work --vault {vault}",
        ),
        (SnapshotNotFound("none", hint=Hint("status")), 3, "colony-memory status --label work --vault {vault}"),
        (UntrustedSnapshot("odd", hint=Hint("open", "signer")), 4, "{same} --key-file FILE"),
        (VaultUnavailable("gone", hint=Hint("open", "base_url")), 5, "set COLONY_BASE_URL"),
        (RollbackDetected("old", hint=Hint("open", "max_bytes")), 4, None),
        # What was just asked tells nothing new.
        (bad_argument("bad", hint=Hint("list_snapshots")), 2, None),
        (ValueError("plain"), 2, None),
        (ColonyMemoryWarning("odd", hint=Hint("verify")), 1, "colony-memory verify --label work --vault {vault}"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_is_one_line_or_one_object(cli, vault, monkeypatch, error, code, told):
    monkeypatch.setattr(ColonyMemory, "list_snapshots", raising(error))
    message = str(error.args[0])
    for given in ([], ["--json"]):
        got, out, err = cli("list", "--label", "work", *given)
        (line,) = err.splitlines()
        assert (got, out) == (code, "")
        same = shlex.join(["colony-memory", "list", "--label", "work", *given, "--vault", str(vault.path)])
        hint = told and told.format(vault=vault.path, same=same)
        named = f"ColonyMemoryWarning: {message}" if isinstance(error, ColonyMemoryWarning) else message
        named += f", in the vault {vault.path}" if code == 3 else ""
        address = address_for(error)
        if given:
            kind = "ValueError" if isinstance(error, ValueError) and code == 2 else type(error).__name__
            read_on = {"help": address} if address else {}
            assert json.loads(line) == {"error": named, "kind": kind, "code": code, "hint": hint, **read_on}
            continue
        if address and code in (4, 5):
            named = f"{named}; see {address}"
        if hint is None:
            assert line == f"error: {named}"
        else:
            assert line == f"error: {named}; {'try: ' if hint.startswith('colony-memory') else ''}{hint}"


def test_what_is_suggested_works_as_pasted(cli, vault, folder, tmp_path):
    (folder / "keys.md").write_text("ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5h")
    code, _, err = cli("backup", folder, "--label", "work")
    assert code == 1
    allow, mask = (shlex.split(line.partition("; try: ")[2]) for line in err.splitlines())
    assert (mask[0], mask[-2:]) == ("colony-memory", ["--secrets", "mask"])
    assert (allow[-2], "--label" in mask, "--label" in allow) == ("--allow-secret", True, True)
    assert cli(*mask[1:])[0] == cli(*allow[1:])[0] == 0
    ColonyMemory(backend=vault).prune(label="work", keep=1)
    assert [info.label for info in ColonyMemory(backend=vault).list_snapshots()] == ["work"]
    (folder / "MEMORY.md").write_text("newer than the snapshot")
    code, _, err = cli("restore", folder, "--label", "work")
    assert code == 1
    program, *words = shlex.split(err.strip().partition("; try: ")[2])
    assert (program, words[-1]) == ("colony-memory", "--snapshot-first")
    assert cli(*words)[0] == 0
    assert (folder / "MEMORY.md").read_bytes() == b"two years\r\n"


def test_a_made_up_id_is_never_one_to_delete(cli, vault):
    """Whoever can write to the vault names a broken file so that deleting "it" would delete the newest good one."""
    info = ColonyMemory(backend=vault).backup({"MEMORY.md": "x"})
    for name in ("latest", info.snapshot_id[:12]):
        (vault.path / f"cmem.default.{name}.manifest.json").write_text("{")
    for more in ([], ["--json"]):
        code, out, _ = cli("status", *more)
        assert code == 0
        assert "colony-memory verify" in out
        assert "colony-memory delete" not in out
