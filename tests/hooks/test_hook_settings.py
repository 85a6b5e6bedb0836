"""Settings of somebody else: hooks go in and out, and every other character stays."""

import doctest
import json
import os
import random
import stat

import pytest

from colony_memory import ColonyMemoryError
from colony_memory.shell.hooks import hosts, install
from colony_memory.shell.hooks.hosts import HOSTS
from colony_memory.shell.hooks.install import built_on, change_settings, commands_built_on, settings_path, without_hooks

CLAUDE, CODEX, GEMINI = (HOSTS[each] for each in ("claude-code", "codex", "gemini"))
POSIX = pytest.mark.skipif(os.name == "nt", reason="POSIX")
FOLDER = "/home/ada/my 'old' memory"
THEIRS = """{
    "model": "opus",
    "number": 1.50,  "great": 100000000000000000000, "letter": "caf\\u00e9 \u00e9 \\ud800",
    "hooks": {
        "Stop": [
            { "matcher": "*", "hooks": [{"type": "command", "command": "say done"}] }
        ],
        "PreToolUse": []
    },

    "last": [ ]
}"""


def with_hooks(text, host, folder=FOLDER):
    return install.with_hooks(text, host, ("/opt/bin/colony-memory", "hook", "--label", folder[-3:], folder), 25)


def own_folder(command):
    return install._target(install._own_words(command))[0]


def own(text):
    """Every hook of ours, as event and entry."""
    hooks = json.loads(text).get("hooks", {}) if text.strip() else {}
    return [
        (event, entry)
        for event, groups in hooks.items()
        for group in groups
        for entry in group["hooks"]
        if own_folder(entry.get("command"))
    ]


def without_ours(value):
    """The same settings as values, without our hooks and what holds nothing but them."""
    return json.loads(without_hooks(json.dumps(value)))


def test_doctests():
    assert doctest.testmod(hosts).failed == 0
    assert doctest.testmod(hosts).attempted > 0


def test_every_other_setting_stays_in_its_place_and_its_indent():
    text = with_hooks(THEIRS, CLAUDE)
    assert len(own(text)) == 4
    assert text.startswith('{\n    "model": "opus",\n    "number": 1.5,\n')
    text.encode()
    back = without_hooks(text)
    assert json.loads(back) == json.loads(THEIRS)
    assert [*json.loads(text)] == [*json.loads(THEIRS)]
    assert without_hooks(THEIRS) == THEIRS
    assert with_hooks(back.replace("\n", "\r\n"), CLAUDE) == text.replace("\n", "\r\n")


def test_one_that_lost_an_event_gets_it_back():
    text = with_hooks("", CLAUDE)
    lacking = json.loads(text)
    del lacking["hooks"]["Stop"]
    assert len(own(with_hooks(json.dumps(lacking), CLAUDE))) == 4


def test_two_folders_side_by_side():
    one = with_hooks(THEIRS, CLAUDE)
    both = with_hooks(one, CLAUDE, "/home/ada/other")
    assert len(own(both)) == 8
    assert without_hooks(both, "/home/ada/other") == one
    assert json.loads(without_hooks(both)) == json.loads(THEIRS)


@pytest.mark.parametrize("more", [" && say saved", "; x", " | tee log", ">/dev/null", " || true", "\necho x", " &"])
def test_what_somebody_built_on_a_hook_stays(more):
    command = f"colony-memory hook /m{more}"
    assert built_on(command)
    theirs = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}}
    assert without_ours(theirs) == theirs
    assert commands_built_on(json.dumps(theirs)) == [command]


def test_what_only_looks_alike_stays():
    for command in ("colony-memory backup x", "my-colony-memory hook x", "echo colony-memory hook x", "x '", 3, None):
        assert own_folder(command) is None
    theirs = [{"type": "command", "command": "colony-memory backup /m"}, {"type": "http"}]
    kept = {"hooks": {"Stop": [{"hooks": theirs}]}}
    assert without_ours(kept) == kept
    for called in ("-m colony_memory", "-I -m colony_memory", "-I -c 'x; " + install._MAIN + "'"):
        assert own_folder(f"/usr/bin/python3 {called} hook --format gemini /m") == "/m"
    for called in ("-m colony", "-c 'import colony_memory'", "x.py -m colony_memory", "-m"):
        assert own_folder(f"/usr/bin/python3 {called} hook /m") is None


@pytest.mark.parametrize("seed", range(30))
def test_any_settings_in_any_shape(seed):
    draw = random.Random(seed)

    def value(depth):
        kind = draw.choice("sinbz" if depth > 2 else "sinbzolol")
        if kind == "o":
            names = [draw.choice(["a", "b\n", "\u00e9", "hooks", ""]) + str(n) for n in range(draw.randrange(4))]
            return {name: value(depth + 1) for name in names}
        if kind == "l":
            return [value(depth + 1) for _ in range(draw.randrange(4))]
        return {"s": draw.choice(['"', "}]", "\\", "x"]), "i": 10**20, "n": None, "b": True, "z": -0.5e-7}[kind]

    document = {f"k{n}": value(0) for n in range(draw.randrange(4))}
    groups = [{"hooks": [{"type": "command", "command": f"c{n}"}]} for n in range(draw.randrange(1, 3))]
    if draw.random() < 0.7:
        document["hooks"] = {draw.choice(["Stop", "SessionStart", "Other"]): groups}
    document |= {f"e{n}": value(0) for n in range(draw.randrange(3))}
    text = json.dumps(document, indent=draw.choice([None, 1, 2, 4, "\t"]), ensure_ascii=draw.random() < 0.5)
    host = draw.choice([CLAUDE, CODEX, GEMINI])
    after = with_hooks(text, host)
    assert len(own(after)) == len(host.tells) + len(host.saves)
    assert with_hooks(after, host) == after
    assert json.loads(without_hooks(after)) == document
    with_both = {**document, "hooks": json.loads(after)["hooks"]}
    assert json.loads(after) == with_both
    assert [*json.loads(after)][: len(document)] == [*document]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1, // mine\n}', "line 1, column 10"),
        ("/* mine */ {}", "a comment"),
        ('{"a": 1,}', "not JSON"),
        ("\ufeff{}", "not JSON"),
        ('{"a": 1, "a": 2}', "twice"),
        ("[]", "not an object"),
        ('"x"', "not an object"),
        ('{"hooks": []}', "not an object"),
        ('{"hooks": {"Stop": {}}}', "Stop are not a list"),
        ('{"a": ' + "[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_refused(text, why):
    for edit in (lambda: with_hooks(text, CLAUDE), lambda: without_hooks(text)):
        with pytest.raises(ValueError, match=why):
            edit()


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1E400"])
def test_a_number_that_would_not_come_back_is_refused(number):
    text = f'{{"a": [{number}]}}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        with_hooks(text, CLAUDE)
    assert without_hooks(text) == text


# The file.


def install_into(path):
    return change_settings(path, lambda text: with_hooks(text, CLAUDE))


def test_where_each_host_keeps_them(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    found = {host.name: settings_path(host) for host in (CLAUDE, CODEX, GEMINI)}
    assert found == {
        "claude-code": tmp_path / ".claude" / "settings.json",
        "codex": tmp_path / ".codex" / "hooks.json",
        "gemini": tmp_path / ".gemini" / "settings.json",
    }
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "elsewhere"))
    assert settings_path(CODEX) == tmp_path / "elsewhere" / "hooks.json"
    with pytest.raises(ValueError, match="takes a hook of two files"):
        settings_path(HOSTS["openclaw"])


def test_a_new_file_is_its_owners_alone(tmp_path):
    change = install_into(tmp_path / "new" / "settings.json")
    assert change
    assert not (tmp_path / "new").exists()
    change.make()
    assert change.path.read_text() == change.after
    if os.name != "nt":
        assert stat.S_IMODE(change.path.stat().st_mode) == 0o600


@POSIX
@pytest.mark.parametrize("mode", [0o644, 0o600, 0o664, 0o444])
def test_the_mode_stays_and_so_does_the_link(tmp_path, mode):
    real, link = tmp_path / "dotfiles" / "claude.json", tmp_path / "settings.json"
    real.parent.mkdir()
    real.write_text(THEIRS, encoding="utf-8")
    real.chmod(mode)
    link.symlink_to(real)
    install_into(link).make()
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == mode
    assert len(own(real.read_text(encoding="utf-8"))) == 4
    assert [path.name for path in real.parent.iterdir()] == [real.name]


def test_what_was_changed_meanwhile_is_left(tmp_path):
    path = tmp_path / "settings.json"
    path.write_text("{}", encoding="utf-8")
    change, created = install_into(path), install_into(tmp_path / "other.json")
    path.write_text('{"theirs": 1}', encoding="utf-8")
    created.path.write_text("{}", encoding="utf-8")
    for each in (change, created):
        with pytest.raises(ColonyMemoryError, match="changed meanwhile"):
            each.make()
    assert path.read_text(encoding="utf-8") == '{"theirs": 1}'
    assert sorted(each.name for each in tmp_path.iterdir()) == ["other.json", "settings.json"]


def test_what_is_no_settings_file_is_named(tmp_path):
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "latin.json").write_bytes(b'{"a": "caf\xe9"}')
    (tmp_path / "large.json").write_bytes(b" " * (install._MOST_BYTES + 1))
    for name in ("folder", "latin", "large"):
        with pytest.raises(ValueError, match=f"{name}.json"):
            install_into(tmp_path / f"{name}.json")
