"""``--agent``: the memory of hosts of agents, saved, and taken to another machine."""

import json
import os
import re
import shlex
import sys

import cli_runs
import pytest
from agent_hosts import CLAUDE_CODE, HOSTS, TOKEN, make_host
from capture_trees import make
from cli_runs import POSIX, tree

from colony_memory import ColonyMemory
from colony_memory.capture import _walk
from colony_memory.shell.hooks import hosts

vault = cli_runs.vault_of_1
MEMORY = "projects/-home-ada-work-app/memory"


@pytest.fixture
def home(tmp_path):
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def another_machine(home, tmp_path, monkeypatch):
    """Call it to go there: another home, and nothing of the host in it."""

    def go():
        monkeypatch.setenv("HOME", str(tmp_path / "there"))
        (tmp_path / "there").mkdir()
        return tmp_path / "there"

    return go


@pytest.mark.parametrize("name", HOSTS)
def test_it_is_saved_and_comes_back_on_another_machine(cli, vault, home, another_machine, name):
    folder = make_host(home, name)
    code, out, err = cli("backup", "--agent", name, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["snapshot"]["label"] == name
    assert not any(TOKEN in text for text in ColonyMemory(backend=vault).restore(label=name).values())
    assert cli("status", "--agent", name, "--max-age", "1h")[0] == 0
    assert cli("watch", "--agent", name, "--once", "--quiet")[0] == 0
    there = another_machine() / folder.relative_to(home)
    code, _, err = cli("restore", "--agent", name)
    assert code == 0, err
    assert set(tree(there)) == HOSTS[name][2]


def test_what_another_machine_has_learned_of_a_project_is_not_replaced(cli, vault, home, refused, another_machine):
    own = another_machine() / ".claude" / MEMORY
    own.mkdir(parents=True)
    (own / "MEMORY.md").write_text("learned here, and saved nowhere\n")
    (own / "deploy.md").write_text("make deploy\n")
    make_host(home, "claude-code")
    cli("backup", home / ".claude", "--agent", "claude-code")
    arguments = ("restore", "--agent", "claude-code")
    line = refused(1, *arguments)
    assert re.search(r"/memory/MEMORY.md' in .* is saved nowhere", line)
    assert cli(*arguments, "--dry-run")[0] == 1
    assert (own / "MEMORY.md").read_text() == "learned here, and saved nowhere\n"
    assert cli(*arguments, "--snapshot-first")[0] == 0
    assert (own / "MEMORY.md").read_text() == "- [deploy](deploy.md)\n"
    kept = ColonyMemory(backend=vault).restore(label="claude-code-before-restore")
    assert "learned here, and saved nowhere\n" in kept.values()


def test_a_project_that_is_new_here_is_told(cli, vault, home, another_machine):
    make_host(home, "claude-code")
    cli("backup", "--agent", "claude-code")
    another_machine()
    for known in (False, True):
        code, _, err = cli("restore", "--agent", "claude-code")
        assert (code, "new here: the memory of -home-ada-work-app; " in err) == (0, not known)


def test_a_snapshot_that_holds_settings_gets_none_of_them_in(cli, vault, home):
    folder = make_host(home, "claude-code")
    hostile = {
        "settings.json": '{"hooks":{"SessionStart":[{"command":"touch /tmp/owned"}]}}',
        "plugins/x/hook.sh": "touch /tmp/owned",
        "projects/-home-ada-work-app/memory/MEMORY.md": "mine\n",
        "Settings.json": "{}",
    }
    ColonyMemory(backend=vault).backup(hostile, label="claude-code")
    before = tree(folder)
    code, _, err = cli("restore", "--agent", "claude-code", "--force")
    assert code == 0
    for name in ("settings.json", "plugins/x/hook.sh", "Settings.json"):
        assert f"not written: {name}: not memory of Claude Code" in err
    after = tree(folder)
    assert after.pop(f"{MEMORY}/MEMORY.md") == b"mine\n"
    before.pop(f"{MEMORY}/MEMORY.md")
    assert after == before


def test_a_snapshot_without_any_memory_is_refused(refused, vault, home):
    folder = make_host(home, "claude-code")
    ColonyMemory(backend=vault).backup({"settings.json": "{}"}, label="claude-code")
    assert "nothing in the snapshot belongs to the memory of Claude" in refused(2, "restore", "--agent", "claude-code")
    assert (folder / "settings.json").read_text() == CLAUDE_CODE["settings.json"]


def test_nothing_that_is_no_memory_is_taken_away_or_saved_before(cli, refused, vault, home):
    folder = make_host(home, "claude-code")
    cli("backup", "--agent", "claude-code")
    (folder / "CLAUDE.md").write_text("changed\n")
    before = tree(folder)
    assert "--delete would remove what a backup" in refused(2, "restore", "--agent", "claude-code", "--delete")
    assert tree(folder) == before
    assert cli("restore", "--agent", "claude-code", "--force", "--snapshot-first", "--json")[0] == 0
    kept = ColonyMemory(backend=vault).restore(label="claude-code-before-restore")
    assert kept["CLAUDE.md"] == "changed\n"
    assert not any(TOKEN in text for text in kept.values())


def test_a_host_that_is_not_there_is_said(refused, vault, home):
    line = refused(2, "backup", "--agent", "openclaw")
    assert "where OpenClaw keeps its memory; if that is elsewhere, set OPENCLAW_WORKSPACE_DIR" in line
    assert "invalid value for '--agent': 'claude' is not one of " in refused(2, "list", "--agent", "claude")


@POSIX
def test_run_restores_and_saves_the_host_s_memory(cli, vault, home, another_machine):
    make_host(home, "claude-code")
    cli("backup", "--agent", "claude-code")
    there = another_machine()
    new = there / ".claude" / MEMORY.removesuffix("/memory")
    script = f"test -f {new}/memory/MEMORY.md && echo learned > {new}/memory/new.md && echo x > {there}/.claude/x.json"
    code, _, err = cli("run", "--agent", "claude-code", "--", "sh", "-c", script)
    assert code == 0, err
    latest = ColonyMemory(backend=vault).restore(label="claude-code")
    assert latest[f"{MEMORY}/new.md"] == "learned\n"
    assert "x.json" not in latest


@POSIX
def test_no_link_of_a_snapshot_leads_to_a_setting(cli, vault, home):
    """Whoever writes the vault may say that memory is a link; it stays inside, and is no way to write a setting."""
    from colony_memory.capture._metadata import METADATA_NAME, Metadata, dump_metadata

    folder = make_host(home, "claude-code")
    before = (folder / "settings.json").read_text()
    links = Metadata(links={"rules/x": "../settings.json", "projects": "plugins"})
    documents = {"rules/x/y": "{}", METADATA_NAME: dump_metadata(links)}
    ColonyMemory(backend=vault).backup(documents, label="claude-code")
    assert cli("restore", "--agent", "claude-code", "--force")[0] != 0
    assert (folder / "settings.json").read_text() == before
    assert not (folder / "projects").is_symlink()


def test_what_was_left_out_is_named_by_kind_and_taken_with_it(cli, vault, home, another_machine):
    folder = make_host(home, "claude-code")
    (folder / "skills" / "tide").mkdir(parents=True)
    (folder / "skills" / "tide" / "SKILL.md").write_text("look at the moon\n")
    _, _, err = cli("backup", "--agent", "claude-code")
    assert "not memory, and not saved: transcripts, skills; --with transcripts,skills saves them too\n" in err
    memory = HOSTS["claude-code"][2]
    kinds = ["--agent", "claude-code", "--with", "skills, transcripts"]
    code, _, err = cli("backup", *kinds)
    assert code == 0
    assert "--with" not in err
    more = {"skills/tide/SKILL.md", "history.jsonl"}
    more |= {"projects/-home-ada-work-app/0f3c.jsonl", "projects/-home-ada-old/77aa.jsonl"}
    saved = ColonyMemory(backend=vault).restore(label="claude-code")
    assert {name for name in saved if not name.startswith(".colony-memory/")} == memory | more
    there = another_machine() / ".claude"
    cli("restore", "--agent", "claude-code", "--with", "transcripts")
    assert not (there / "skills").exists()
    assert (there / "history.jsonl").exists()
    assert cli("restore", *kinds)[0] == 0
    assert memory | more == set(tree(there))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--agent", "codex", "--with", "plans"], "Codex has no 'plans'; besides its memory it has transcripts, "),
        (["--agent", "openclaw", "--with", "plans"], "OpenClaw has no 'plans'; besides its memory it has nothing"),
        (["--with", "plans", "memory"], "--with needs --agent"),
    ],
)
def test_what_no_host_has_is_refused(refused, vault, home, words, why):
    assert why in refused(2, "backup", *words)


def test_the_hooks_of_a_host_save_its_own_memory(cli, vault, home, tmp_path, monkeypatch):
    folder = make_host(home, "claude-code")
    settings = folder / "settings.json"
    before = '{"theirs": 1.0}'
    settings.write_text(before)
    assert cli("hook", "install", "claude-code", "--exclude", "*.bak", "--with", "transcripts")[0] == 0
    (entry,) = json.loads(settings.read_text())["hooks"]["Stop"]
    words = shlex.split(entry["hooks"][0]["command"])
    words = words[words.index("hook") :]
    assert [each for each in words if "exclude" in each or "agent" in each or "with" in each] == [
        "--agent=claude-code", "--with=transcripts", "--exclude=*.bak",
    ]  # fmt: skip
    assert words[-1] == str(folder)
    (folder / "MEMORY.bak").write_text("x")
    monkeypatch.chdir("/")
    monkeypatch.setattr(hosts, "read_input", lambda *_, **__: b'{"hook_event_name": "Stop"}')
    assert cli(*words)[:2] == (0, "{}\n")
    saved = set(ColonyMemory(backend=vault).restore(label="claude-code"))
    assert "history.jsonl" in saved
    assert not {"MEMORY.bak", ".credentials.json", "settings.json"} & saved
    assert cli("hook", "install", "claude-code", "--exclude", "*.bak", "--with", "transcripts", folder)[1].startswith(
        "nothing"
    )
    assert cli("hook", "uninstall", "claude-code")[0] == 0
    assert json.loads(settings.read_text()) == json.loads(before)


@pytest.mark.parametrize(
    ("host", "file", "text"),
    [
        ("claude-code", "settings.json", '{"disableAllHooks" : true}'),
        ("codex", "config.toml", "model = 'x'\n[features]\nhooks = false\n"),
        ("gemini", "settings.json", '{"hooksConfig": {"notifications": true, "enabled": false}}'),
    ],
)
def test_hooks_that_are_switched_off_are_said(cli, vault, home, tmp_path, host, file, text):
    (tmp_path / "memory").mkdir()
    (home / f".{host.partition('-')[0]}").mkdir(parents=True)
    place = home / f".{host.partition('-')[0]}" / file
    words = ["hook", "install", host, tmp_path / "memory"]
    assert "switches hooks off" not in cli(*words)[2]
    place.write_text(text)
    code, _, err = cli(*words)
    assert code == 0
    assert f"{place} switches hooks off" in err
    assert "switches" not in cli("hook", "uninstall", host)[2]
    place.unlink(missing_ok=True)
    place.mkdir()
    assert cli("hook", "install", host, "--settings", place.parent / "else" / "x.json", tmp_path / "memory")[0] == 0


@pytest.fixture
def linked(home):
    """A host's folder of which most is links into a directory of the user's."""
    folder, kept = make_host(home, "claude-code"), home / "dotfiles"
    kept.mkdir()
    for name in ("CLAUDE.md", "rules", MEMORY):
        (folder / name).rename(kept / name.replace("/", "-"))
        (folder / name).symlink_to(kept / name.replace("/", "-"))
    return folder


@POSIX
def test_links_of_a_host_s_memory_are_followed(cli, vault, home, linked, another_machine):
    assert cli("backup", "--agent", "claude-code")[0] == 0
    assert json.loads(cli("backup", "--agent", "claude-code", "--json")[1])["snapshot"]["reused"]
    (home / "dotfiles" / "rules" / "python.md").write_text("Use mypy.\n")
    assert "ahead by 1 file" in cli("status", "--agent", "claude-code")[1]
    assert cli("hook", "--agent", "claude-code", "--format", "claude-code")[0] == 0
    assert ColonyMemory(backend=vault).restore(label="claude-code")["rules/python.md"] == "Use mypy.\n"
    there = another_machine() / ".claude"
    assert cli("restore", "--agent", "claude-code")[0] == 0
    assert set(tree(there)) == HOSTS["claude-code"][2]
    assert not any(path.is_symlink() for path in there.rglob("*"))


@POSIX
def test_nothing_is_written_through_a_link_of_a_host_s_memory(cli, refused, vault, home, linked):
    cli("backup", "--agent", "claude-code")
    rule = home / "dotfiles" / "rules" / "python.md"
    (linked / "agent-memory" / "reviewer" / "MEMORY.md").unlink()
    assert cli("restore", "--agent", "claude-code")[0] == 0
    assert (linked / "agent-memory" / "reviewer" / "MEMORY.md").exists()
    rule.write_text("Use mypy.\n")
    told = refused(1, "restore", "--agent", "claude-code", "--force")
    assert "nothing is written through links" in told
    assert "'rules/python.md'" in told
    assert (rule.read_text(), (linked / "rules").is_symlink()) == ("Use mypy.\n", True)
    assert cli("run", "--agent", "claude-code", "--", sys.executable, "-c", "")[0] == 0
    assert rule.read_text() == "Use mypy.\n"


@POSIX
def test_a_memory_of_nothing_but_links_comes_back_to_where_they_are(cli, vault, home):
    kept, folder = home / "dotfiles", home / ".claude"
    make(kept, {"CLAUDE.md": b"be kind"})
    folder.mkdir()
    (folder / "CLAUDE.md").symlink_to(kept / "CLAUDE.md")
    assert cli("backup", "--agent", "claude-code")[0] == 0
    assert cli("restore", "--agent", "claude-code")[0] == 0
    assert (folder / "CLAUDE.md").is_symlink()


@POSIX
@pytest.mark.parametrize(
    ("leads", "why"),
    [
        (".ssh", "'.ssh' may hold secrets"),
        ("Library/x", "'Library' may hold secrets"),
        ("work/auth.json", "that may be a secret"),
        (".claude/.credentials.json", "that is not memory of Claude Code"),
        (".claude/projects/-home-ada-work-app", "that is not memory of Claude Code"),
        (".codex/auth.json", "that is not memory of Codex"),
        ("../outside", "that is not below"),
        (".", "that is not below"),
        ("away", "that is not below"),
        ("over", "the folder itself is in there"),
        ("nowhere", "nothing is there"),
        ("pipe", "named pipe"),
        ("vault/cmem.default.latest.json", "a vault"),
    ],
)
def test_a_link_that_leads_to_no_memory_is_named(cli, vault, home, tmp_path, monkeypatch, leads, why):
    over = home / "over" / ".claude"
    folder = make_host(home, "claude-code")
    if leads == "over":
        over.parent.mkdir()
        folder.rename(over)
        folder = over
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(over))
    make(home, {".ssh/id": b"k", "Library/x/c": b"k", "work/auth.json": b"{}", ".codex/auth.json": b"{}"})
    make(home, {"vault/cmem.default.latest.json": b"{}"})
    make(tmp_path, {"outside/a": b"k"})
    (home / "away").symlink_to(tmp_path / "outside")
    os.mkfifo(home / "pipe")
    (folder / "rules" / "more").symlink_to(home / leads)
    code, out, err = cli("backup", "--agent", "claude-code")
    assert (code, out.startswith("saved ")) == (1, True)
    assert f"left out: rules/more: is a link to {str(home / leads)!r}; it is not followed: " in err
    assert why in err
    assert not any(name.startswith("rules/more") for name in ColonyMemory(backend=vault).restore(label="claude-code"))


@POSIX
def test_a_folder_that_is_all_links_is_named_with_what_saves_it(cli, refused, vault, home):
    kept, folder = home / "dotfiles", home / "notes"
    make(kept, {"CLAUDE.md": b"be kind", "rules/a.md": b"a rule"})
    folder.mkdir()
    for name in ("CLAUDE.md", "rules"):
        (folder / name).symlink_to(kept / name)
    told = refused(2, "backup", folder)
    assert (
        "links are followed where they are given as paths themselves, as these could be: 'CLAUDE.md', 'rules'" in told
    )
    assert cli("backup", "--quiet", folder / "CLAUDE.md", folder / "rules")[0] == 0
    assert ColonyMemory(backend=vault).restore()["rules/a.md"] == "a rule"


@POSIX
def test_a_link_is_followed_once_and_not_by_too_many(cli, vault, home):
    folder = make_host(home, "claude-code")
    make(home / "shared", {"a.md": b"a", ".git/config": b"secret", "keep.log": b"noise", "private/b.md": b"b"})
    make(home / ".codex", {"AGENTS.md": b"be brief"})
    (home / "shared" / "on").symlink_to(home / "else")
    (home / "else").mkdir()
    (folder / ".cmemignore").write_text("rules/*/private/\n")
    (folder / "rules" / "AGENTS.md").symlink_to(home / ".codex" / "AGENTS.md")
    for number in range(11):
        (folder / "rules" / f"{number:02}").symlink_to(home / "shared")
    code, _, err = cli("backup", "--agent", "claude-code", "--verbose")
    assert code == 1
    assert "rules/00/on: is a link to " in err
    assert "left out: rules/10: " in err
    assert "10 others lead there, too" in err
    saved = ColonyMemory(backend=vault).restore(label="claude-code")
    shared = {name for name in saved if name.startswith("rules/0")}
    assert shared == {f"rules/{number:02}/a.md" for number in range(10)}
    assert saved["rules/AGENTS.md"] == "be brief"


@POSIX
def test_what_takes_the_place_of_a_followed_directory_is_not_read(cli, vault, home, tmp_path, linked, monkeypatch):
    make(tmp_path / "outside", {"secret.md": b"not for the vault"})
    find = _walk.find_end

    def swapped(*given):
        end = find(*given)
        kept = home / "dotfiles"
        if kept.is_symlink():
            return end
        kept.rename(home / "gone")
        kept.symlink_to(tmp_path / "outside")
        (tmp_path / "outside" / "rules").mkdir()
        (tmp_path / "outside" / "rules" / "python.md").write_text("not for the vault")
        return end

    monkeypatch.setattr(_walk, "find_end", swapped)
    code, _, err = cli("backup", "--agent", "claude-code")
    assert code == 1
    assert "left out: " in err
    assert "not for the vault" not in "".join(ColonyMemory(backend=vault).restore(label="claude-code").values())
