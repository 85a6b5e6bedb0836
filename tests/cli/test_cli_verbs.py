"""Verbs with right and wrong arguments, one line each for what is wrong."""

import json
import os
import shlex
import sys
from datetime import timedelta

import pytest
from cli_runs import NOON, POSIX, damage, save

from colony_memory.shell import words as text

# --- backup


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["backup"], "missing argument 'PATH'; try: colony-memory backup --help"),
        (["backup", "nowhere"], "'nowhere': no such file or directory"),
        (["backup", ""], "an empty path"),
        (["backup", "empty"], "nothing to back up"),
        (["backup", "--frob", "memory"], "--frob"),
        (["backup", "--keep", "0", "memory"], "try: colony-memory backup --help"),
        (["backup", "--keep", "many", "memory"], "try: colony-memory backup --help"),
        (["backup", "--label"], "--label"),
        (["restore"], "missing argument '[ID] DIR'; try: colony-memory restore --help"),
        (["restore", ""], "an empty path"),
        (["restore", "memory/MEMORY.md"], "cannot be a directory"),
        (["restore", "out", "--only", "*.png"], "nothing in the snapshot matches '*.png'"),
        (["restore", "out", "--snapshot", "../x"], "names no snapshot"),
        (["restore", "latest", "out", "again"], "'again' is one argument too many"),
        (["restore", "latest~1"], "names a snapshot, and the DIR is missing; a folder is ./latest~1"),
        (["restore", "latest", ""], "an empty path"),
        (["restore", "../x", "out"], "names no snapshot"),
        (["restore", "latest", "out", "--snapshot", "latest"], "each name a snapshot"),
        (["diff", ""], "an empty path"),
        (["diff", "latest", ""], "an empty path"),
        (["cat", "latest"], "names a snapshot, and the NAME is missing"),
        (["cat", ""], "an empty name"),
        (["cat", "latest", "a.md", "b.md"], "'b.md' is one argument too many"),
        (["list", "--label", "\u00e9"], "give the label a name"),
        (["status", "--label", "a b"], "use 'a-b'"),
        (["list", "--vault", ""], "it is empty: give a value, or leave it out"),
        (["list", "--vault", "memory:"], "is gone when"),
        (["list", "--vault", "colony:"], "set COLONY_API_KEY"),
        (["list", "--vault", "COLONY://"], "set COLONY_API_KEY"),
        (["list", "--vault", "gopher://x"], "gopher: is not a kind of vault"),
        (["list", "--vault", "memory/MEMORY.md"], "is not a directory"),
        (["frob"], "frob"),
        (["--frob"], "try: colony-memory --help"),
        (["list", "--a\x1b[31m\nb"], "try: colony-memory list --help"),
    ],
)
def test_usage_errors_are_one_line_and_code_2(refused, vault, folder, arguments, says):
    (folder.parent / "empty").mkdir()
    save(vault, {"a.md": "x"})
    line = refused(2, *arguments)
    assert says in line
    assert "\x1b" not in line
    assert not (folder.parent / "out").exists()


def test_a_vault_inside_what_is_saved_is_refused(refused, cli, folder, tmp_path):
    inside = folder / "vault"
    for path in (folder, inside):
        assert cli("init", path)[0] == 0
    assert "each backup would hold all the ones before" in refused(2, "backup", folder, "--vault", inside)
    assert "keep the vault elsewhere" in refused(2, "backup", folder, "--vault", folder)
    assert list(inside.glob("cmem.*")) == []
    assert cli("backup", folder / "notes", "--vault", inside)[0] == 0


# --- list


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (3, ["restore", "OUT"]),
        (3, ["restore", "latest~1", "OUT"]),
        (3, ["restore", "--at", "2026-11-01", "OUT"]),
        (3, ["show", "latest"]),
        (3, ["cat", "a.md"]),
        (3, ["log", "a.md"]),
        (3, ["grep", "a"]),
        (3, ["verify"]),
        (3, ["diff", "latest", "latest~1"]),
        (3, ["pin", "latest"]),
        (3, ["delete", "latest", "--yes"]),
        (3, ["export", "latest", "OUT"]),
        (3, ["status"]),
        (0, ["list"]),
        (0, ["prune", "--keep", "1", "--yes"]),
        (0, ["prune", "--keep", "1", "--dry-run"]),
        (0, ["run", "OUT", "--", sys.executable, "-c", ""]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_label_that_is_not_there_names_those_that_are(cli, vault, tmp_path, code, words):
    for number in range(10):
        save(vault, {"a.md": "x"}, label=f"agent-{number}")
    label = ["--label", "agent"]
    at = words.index("--") if "--" in words else len(words)
    words = [*words[:at], *label, *words[at:]]
    got, out, err = cli(*(word.replace("OUT", str(tmp_path / "out")) for word in words))
    assert got == code
    named = ", ".join(f"'agent-{number}'" for number in range(8))
    said = out + err
    assert "nothing is saved " in said
    assert f"there are {named} and 2 more" in said
    assert f"in the vault {vault.path}" in said


def test_list_shows_the_newest_first_and_marks_the_latest(cli, vault):
    first = save(vault, {"a.md": "x" * 5000}, at=NOON)
    second = save(vault, {"a.md": "y", "b.md": "z"}, at=NOON + timedelta(days=1))
    other = save(vault, {"a.md": "x"}, at=NOON + timedelta(days=2), label="other")
    code, out, err = cli("list")
    assert (code, err) == (0, "")
    heads, *rows, foot = out.splitlines()
    assert heads.split() == ["id", "label", "created", "size", "stored", "signed", "by", "remarks"]
    assert [row[:31] for row in rows] == [f"* {other.snapshot_id}", f"* {second.snapshot_id}", f"  {first.snapshot_id}"]
    assert rows[2].split()[1:] == [
        *("default", "2026-11-01", "12:00", "UTC", "5.0", "kB"),
        *text.size(first.stored_bytes).split(),
        "-",
        *["kept,", "as", "a", "much", "smaller", "one", "followed"],
    ]
    assert foot == "3 snapshots; * is the latest, which restore gives"
    assert len(cli("list", "--label", "other")[1].splitlines()) == 3
    listed = json.loads(cli("list", "--json", "--label", "default")[1])["snapshots"]
    assert [each["snapshot_id"] for each in listed] == [second.snapshot_id, first.snapshot_id]


@pytest.mark.parametrize(
    ("asked", "says", "offers"),
    [
        ("bakcup memory", "there is no command 'bakcup', did you mean 'backup'?", "backup --help"),
        ("RESTORE out", "there is no command 'RESTORE', did you mean 'restore'?", "restore --help"),
        ("snapshots", "there is no command 'snapshots', did you mean 'list'?", "list --help"),
        ("forget --keep-last 1", "there is no command 'forget', did you mean 'prune'?", "prune --help"),
        ("help", "there is no command 'help'", "--help"),
        ("version", "there is no command 'version'", "--help"),
        ("xyzzy", "there is no command 'xyzzy'", "--help"),
        (f"{'x' * 5000}", f"there is no command '{'x' * 40}\u2026'", "--help"),
        ("--quiet list", "there is no option --quiet before the command", "--help"),
        ("--frob", "there is no option --frob before the command", "--help"),
        ("list --lable a", "there is no option --lable, did you mean --label?", "list --help"),
        (f"backup --frob{'x' * 5000}", f"there is no option --frob{'x' * 34}\u2026", "backup --help"),
    ],
)
def test_what_is_said_of_it(refused, asked, says, offers):
    assert refused(2, *shlex.split(asked)) == f"error: {says}; try: colony-memory {offers}"


def test_without_a_command_the_help_is_printed(cli):
    code, out, err = cli()
    assert (code, err) == (2, "error: a command is missing; try: colony-memory --help\n")
    assert out == cli("--help")[1]


@pytest.mark.parametrize(
    "verb", [["show"], ["verify"], ["diff"], ["delete", "--yes"], ["restore", "out", "--force", "--snapshot"]]
)
def test_every_verb_takes_them(cli, refused, vault, verb):
    first = save(vault, {"a.md": "x"}, at=NOON)
    second = save(vault, {"a.md": "y"}, at=NOON + timedelta(days=1))
    assert "2 ids" in refused(2, *verb, first.snapshot_id[:6])
    assert "further back" in refused(3, *verb, "latest~2")
    if verb not in (["diff"], ["verify"]):  # to them it is a path
        assert "names no snapshot" in refused(2, *verb, "latest~")
    code, out, err = cli(*verb, "latest~1", "--json")
    assert (code, err) == (0, "")
    assert first.snapshot_id in out
    code, out, _ = cli(*verb, second.snapshot_id[:8], "--json")
    assert code == 0
    assert second.snapshot_id in out


@pytest.fixture
def lacking(folder):
    """A folder with something in it that no snapshot can hold."""
    os.mkfifo(folder / "pipe")
    return folder


@POSIX
def test_each_verb_tells_what_is_missing(lacking, vault, cli, tmp_path):
    code, out, err = cli("backup", lacking)
    assert (code, "1 left out" in out) == (1, True)
    told = err.removeprefix("left out: ").rstrip("\n")
    assert told.startswith("pipe: ")
    assert cli("backup", lacking, "--quiet") == (1, "", err)
    code, out, err = cli("backup", lacking, "--json")
    assert (code, json.loads(err)) == (1, {"warning": f"left out: {told}", "hint": None})
    (left,) = json.loads(out)["left_out"]
    assert (left["name"], set(left)) == ("pipe", {"name", "reason", "unread"})
    heads, row, _ = cli("list")[1].splitlines()
    assert heads.endswith("  remarks")
    assert row.endswith("  1 left out")
    shown = cli("show", "latest")[1].splitlines()
    assert "incomplete  1 left out" in shown
    assert shown[-2:] == ["left out:", told]
    assert "newest: 1 left out" in cli("status")[1]
    code, _, err = cli("restore", "--quiet", tmp_path / "out")
    (info,) = json.loads(cli("list", "--json")[1])["snapshots"]
    assert (code, err) == (0, f"warning: snapshot {info['snapshot_id']} is incomplete, 1 left out: {told}\n")
    assert info["incomplete"] == [told]
    for verb in (["show", "latest"], ["restore", tmp_path / "again"]):
        assert json.loads(cli(*verb, "--json")[1])["snapshot"]["incomplete"] == [told]
    assert json.loads(cli("status", "--json")[1])["newest"]["incomplete"] == [told]


@pytest.fixture
def mixed(folder):
    """Two files of text and two of bytes, a link and an empty folder."""
    (folder / "face.png").write_bytes(b"\x89PNG\r\n\xff")
    (folder / "notes" / "a.md").write_text("a")
    (folder / "today.md").symlink_to("notes/a.md")
    return folder


@POSIX
def test_every_place_counts_alike(cli, vault, mixed, tmp_path):
    code, out, err = cli("backup", mixed)
    assert (code, err) == (0, "")
    assert out.splitlines()[1].startswith("5 files, 1 empty folder, ")
    assert cli("backup", mixed)[1].splitlines()[2].startswith("5 files, 1 empty folder, ")
    out = cli("show", "latest")[1]
    assert out.partition("\n\n")[2].splitlines() == [
        "5 files, 1 empty folder:",
        "MEMORY.md",
        "face.png  (no text)",
        "notes/a.md",
        "notes/caf\u00e9.md  (no text)",
        "today.md -> notes/a.md",
        "logs/",
    ]
    assert cli("restore", "out")[1].splitlines()[-1] == "out: 5 created, 1 empty folder, 0 replaced, 0 unchanged"
    assert cli("restore", "out")[1].splitlines()[-1] == "out: 0 created, 0 replaced, 5 unchanged"
    answer = json.loads(cli("show", "latest", "--json")[1])
    assert answer["file_count"] == json.loads(cli("backup", mixed, "--json")[1])["file_count"] == 5
    assert answer["files"] == ["MEMORY.md", "face.png", "notes/a.md", "notes/caf\u00e9.md"]
    assert (answer["links"], answer["empty_dirs"]) == ({"today.md": "notes/a.md"}, ["logs"])
    written = json.loads(cli("restore", "again", "--json")[1])
    assert len(written["created"]) == 5


@pytest.mark.parametrize("as_json", [False, True])
def test_what_cannot_be_read_is_shown_as_far_as_it_is_known(cli, vault_of_1, as_json):
    vault = vault_of_1
    info = save(vault, {"a.md": "x", "b.md": "y"})
    damage(vault, info)
    code, out, err = cli("show", "latest", *(["--json"] if as_json else []))
    assert (code, len(err.splitlines())) == (4, 1)
    if as_json:
        answer = json.loads(out)
        assert answer["snapshot"]["snapshot_id"] == info.snapshot_id
        assert (answer["file_count"], answer["files"]) == (None, None)
    else:
        assert out.splitlines()[-3:] == ["2 texts:", "a.md", "b.md"]


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (99_950, "100 kB"),
        (999_500, "1.0 MB"),
        (84 * 10**9, "84.0 GB"),
        (5 * 10**15, "5000 TB"),
    ],
)
def test_sizes(count, said):
    assert text.size(count) == said


def test_a_name_is_cut_where_no_path_is_so_long_and_a_line_of_a_text_never():
    name = "n" * 4096
    assert text.shown(name) == name
    assert text.shown(name + "\n" * 5) == f"{name}… and 5 more characters"
    assert text.shown_with_tabs("\x1b" + name * 3) == "\\x1b" + name * 3
