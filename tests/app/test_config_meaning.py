"""What a configuration file may say, and what each mistake in one is answered with."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from colony_memory.app.config import SETTINGS, Setting, effective, read_config
from colony_memory.retention import Retention

if sys.version_info < (3, 11):
    pytest.importorskip("tomli")

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colony_memory.app.config import load_config
from colony_memory.app.values import parse_duration, show_duration

PATH, HOME = Path("/etc/x.toml"), "/home/ada"


def read(document):
    return read_config(document, path=PATH, home=HOME)


def test_everything_that_may_stand_in_one():
    config = read(
        {
            "vault": "nas",
            "key_file": "~/keys/a.pem",
            "format": 2,
            "encrypt_to": ["age1x", "passphrase"],
            "identity": ["~/keys/age.txt", "passphrase"],
            "exclude": ["*.log"],
            "vaults": {"nas": "file:///mnt/nas", "home": "~/vault"},
            "sets": {
                "agent": {"paths": ["~/agent", "/srv/notes"], "exclude": "*.tmp", "every": "5m", "git": True},
                "claude": {"agent": "claude-code", "label": "cc", "vault": "home"},
            },
            "retention": {"agent": {"keep": 3, "keep_within": "2d"}},
        }
    )
    assert config.exists
    assert dict(config.settings) == {
        "vault": "file:///mnt/nas",
        "key_file": "/home/ada/keys/a.pem",
        "format": "2",
        "encrypt_to": ["age1x", "passphrase"],
        "identity": ["/home/ada/keys/age.txt", "passphrase"],
        "exclude": ["*.log"],
    }
    agent, claude = config.sets["agent"], config.sets["claude"]
    assert (agent.label, agent.paths, agent.agent) == ("agent", ("/home/ada/agent", "/srv/notes"), None)
    assert dict(agent.settings) == {"exclude": ["*.tmp"], "every": "5m", "git": True}
    assert (claude.label, claude.paths, claude.agent) == ("cc", (), "claude-code")
    assert claude.settings["vault"] == "/home/ada/vault"
    assert config.retention_of("agent") == Retention(keep_last=3, keep_within=timedelta(days=2))
    assert config.retention_of("cc") is None
    assert config.url_of("nas") == "file:///mnt/nas"
    assert config.url_of("elsewhere") == "elsewhere"


SET = {"paths": ["/a"]}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"valut": "x"}, "valut is not known; did you mean vault?"),
        ({"zzz": 1}, "zzz is not known; keys here are vault, key_file, "),
        ({"key-file": "/k"}, "key-file is not known; did you mean key_file?"),
        ({"api_key": "col_secret"}, "api_key: secrets do not belong in this file; "),
        ({"sets": {"a": {**SET, "password": "hunter2"}}}, "sets.a.password: secrets do not belong"),
        ({"sets": {"a": {**SET, "lable": "x"}}}, "sets.a.lable is not known; did you mean label?"),
        ({"retention": {"a": {"keep_dayly": 1}}}, "retention.a.keep_dayly is not known; did you mean keep_daily?"),
        ({"retention": {"a": {}}}, "retention.a says nothing of what to keep"),
        ({"retention": {"a": {"keep": 0}}}, "retention.a.keep: must be a whole number from 1 up"),
        ({"retention": {"a": {"keep": True}}}, "retention.a.keep: must be a whole number from 1 up"),
        ({"retention": {"a": {"keep_within": "2 fortnights"}}}, "retention.a.keep_within: '2 fortnights' is not a len"),
        ({"retention": {"Ärger": {"keep": 1}}}, "retention.Ärger: label 'Ärger' cannot be used as it is"),
        ({"vault": "nsa", "vaults": {"nas": "/n"}}, "vault is 'nsa', which is neither .*; did you mean nas[?]"),
        ({"vault": "vault"}, "vault is 'vault', which is neither a URL nor an absolute path, .*; there are no names"),
        ({"vaults": {"a b": "/n"}}, "vaults.'a b' is no name"),
        ({"vaults": {"a": "./here"}}, "vaults.a is './here', which is neither"),
        ({"vaults": {"a": 3}}, "vaults.a: must be a text"),
        ({"vaults": "x"}, "vaults: must be a table"),
        ({"sets": {"a": "x"}}, "sets.a: must be a table"),
        ({"sets": {"a": {}}}, "sets.a says nothing of what is saved: give it paths, or an agent"),
        ({"sets": {"a": {"paths": []}}}, "sets.a.paths: must be a list of texts, none of them empty"),
        ({"sets": {"a": {"paths": ["memory"]}}}, "sets.a.paths: must be an absolute path, or begin with ~/"),
        ({"sets": {"a": {"paths": ["/$HOME/x"]}}}, "sets.a.paths: holds a variable, and none is expanded here"),
        ({"sets": {"a": {"paths": [" "]}}}, "sets.a.paths: must be a list of texts"),
        ({"sets": {"a b": SET}}, "sets.a b: label 'a b' cannot be used as it is"),
        ({"sets": {"a": {**SET, "label": "A b"}}}, "sets.a.label: label 'A b' cannot be used as it is"),
        (
            {"sets": {"a": {"agent": "clod"}}},
            "sets.a.agent: must be claude-code, openclaw, hermes or codex, not 'clod'",
        ),
        ({"sets": {"a": {"agent": "codex", "paths": ["/a", "/b"]}}}, "sets.a.paths may be the one folder"),
        ({"encrypt_to": "to.txt"}, "encrypt_to: must be an absolute path, or begin with ~/, where it is no recipient"),
        ({"on_error": "./tell --now"}, "on_error: must name its program by an absolute path, or by a name that is on"),
        ({"on_error": "~/bin/tell"}, "on_error: must name its program"),
        ({"on_error": "tell 'x"}, "on_error: is no command: No closing quotation"),
        ({"secrets": "ask"}, "secrets: must be stop, warn, mask or allow, not 'ask'"),
        ({"format": 3}, "format: must be 1 or 2, not '3'"),
        ({"format": True}, "format: must be 1 or 2"),
        ({"git": "yes"}, "git: must be true or false"),
        ({"every": 15}, "every: must be a text"),
        ({"every": "15"}, "every: '15' has no unit"),
        ({"exclude": ["!"]}, "exclude: '!' is not a rule of gitignore"),
        ({"sets": {"a": {**SET, "label": "x"}, "b": {**SET, "label": "x"}}}, "sets.b has the label 'x', in the same"),
    ],
)
def test_each_mistake_is_named_by_its_key(document, message):
    with pytest.raises(ValueError, match=f"^{message}") as caught:
        read(document)
    assert "hunter2" not in str(caught.value)
    assert "col_secret" not in str(caught.value)


STRANGE = [
    None, True, 0, -1, 1.5, "", " ", "x", "~", "~/a", "/a", "/a\0", "$X", "7d", "!", "\udc80", "\x1b[2J", [], [[]],
    [1], ["x", ""], {}, {"": 1}, {"a": {}}, {"a": {"paths": {}}}, {"a": {"keep": []}}, {"a": [{}]},
    {"\0": "/x"}, {"a": None},
]  # fmt: skip


@pytest.mark.parametrize("key", [*SETTINGS, "sets", "vaults", "retention"])
def test_whatever_stands_in_it_is_right_or_an_error_that_says_why(key):
    told = []
    for value in STRANGE:
        for document in ({key: value}, {"sets": {"a": {"paths": ["/a"], key: value}}}):
            try:
                read(document)
            except ValueError as error:
                told.append(str(error))
    assert len(told) > len(STRANGE)
    assert all(key in each for each in told)


def test_what_may_be_a_key_itself_is_not_repeated():
    with pytest.raises(ValueError, match=r"^key_file: must be an absolute path") as caught:
        read({"key_file": "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"})
    assert "9d61" not in str(caught.value)


def test_without_a_home_a_tilde_is_refused():
    with pytest.raises(ValueError, match="no home directory is known"):
        read_config({"witness": "~/w"}, path=PATH, home="~")


def test_what_is_not_there_is_said_with_what_is():
    config = read({"sets": {"agent": SET, "notes": SET}})
    with pytest.raises(ValueError, match=r"there is no set 'agnet' in /etc/x.toml; did you mean agent"):
        config.set_of("agnet")
    with pytest.raises(ValueError, match=r"there is no set 'zzz' in /etc/x.toml; sets are agent, notes"):
        config.set_of("zzz")
    with pytest.raises(ValueError, match=r"there is no set 'x' in /etc/x.toml; there are no sets"):
        read({}).set_of("x")


def test_options_before_variables_before_the_set_before_the_rest():
    config = read(
        {
            "vault": "nas",
            "secrets": "warn",
            "every": "1h",
            "exclude": ["a"],
            "vaults": {"nas": "/nas", "usb": "/usb"},
            "sets": {"agent": {**SET, "secrets": "mask", "exclude": ["b"], "ping": "https://x.example"}},
        }
    )
    options = {
        "vault": Setting("usb", ("--vault",)),
        "exclude": Setting(["c"], ("--exclude",)),
        "ping": Setting("https://y.example", ("--ping",)),
    }
    found = effective(config, config.sets["agent"], options)
    assert {name: (each.value, each.sources) for name, each in found.items()} == {
        "label": ("agent", ("sets.agent",)),
        "vault": ("/usb", ("--vault",)),
        "exclude": (["a", "b", "c"], ("exclude", "sets.agent.exclude", "--exclude")),
        "secrets": ("mask", ("sets.agent.secrets",)),
        "every": ("1h", ("every",)),
        "ping": ("https://y.example", ("--ping",)),
    }
    assert effective(config, None, {})["secrets"].value == "warn"
    assert "label" not in effective(config, None, {})


posix = pytest.mark.skipif(os.name == "nt", reason="POSIX")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config" / "colony-memory").mkdir(parents=True)
    return tmp_path / "config" / "colony-memory" / "config.toml"


def test_the_null_device_is_none(place, monkeypatch):
    place.write_text("valut = 1\n")
    monkeypatch.setenv("COLONY_MEMORY_CONFIG", os.devnull)
    assert not load_config().exists


def test_neither_the_working_directory_nor_a_relative_variable_counts(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("config.toml", ".colony-memory.toml", "colony-memory.toml"):
        (tmp_path / name).write_text("vault = '/stranger'")
    assert not load_config().exists
    monkeypatch.setenv("COLONY_MEMORY_CONFIG", "config.toml")
    with pytest.raises(ValueError, match="COLONY_MEMORY_CONFIG: must be an absolute path"):
        load_config()


@posix
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_what_others_can_write_is_not_believed(place, mode):
    place.write_text("vault = '/v'\n")
    place.chmod(mode)
    with pytest.raises(ValueError, match=rf"can be written by others \(mode {mode:04o}\).*chmod go-w {place}"):
        load_config()
    place.chmod(mode & ~0o022)
    assert load_config().exists


@posix
def test_what_another_user_owns_is_not_believed(place, monkeypatch):
    place.write_text("vault = '/v'\n")
    owner = place.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    if owner == 0:
        assert load_config().exists  # root's own files are believed
        os.chown(place, 12345, -1)
        owner = 12345
    with pytest.raises(ValueError, match=rf"belongs to another user \({owner}\), and is not believed"):
        load_config()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"vault = x\n", r"it is not TOML: .*line 1"),
        (b"a = 1\nb = [\n", r"it is not TOML: "),
        (b"a = 1\n# \xff\n", "line 2 is not UTF-8"),
        (b"a = " + b"[" * 100_000, "it is not TOML"),
        (b"x" * ((1 << 20) + 1), "larger than 1048576 bytes"),
        (b"valut = 1", "valut is not known; did you mean vault"),
    ],
)
def test_what_is_wrong_is_told_with_the_file(place, data, message):
    place.write_bytes(data)
    with pytest.raises(ValueError, match=f"^configuration file {place}: {message}"):
        load_config()


@posix
def test_what_is_no_file_is_not_waited_for(place):
    os.mkfifo(place)
    with pytest.raises(ValueError, match="not a plain file"):
        load_config()
    place.unlink()
    place.mkdir()
    with pytest.raises(ValueError, match="not a plain file"):
        load_config()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15m", 900),
        ("90s", 90),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        (" 2d ", 172_800),
        ("26h", 93_600),
        ("1w2d3h4m5s", 604_800 + 2 * 86_400 + 3 * 3600 + 4 * 60 + 5),
        ("90m", 5400),
        ("0h5m", 300),
        ("15M", 900),
        ("007s", 7),
        ("3650d", 3650 * 86_400),
    ],
)
def test_durations(text, seconds):
    assert parse_duration(text) == timedelta(seconds=seconds)


FORM = "write it like 90s, 15m, 1h30m or 2d (weeks w, days d, hours h, minutes m, seconds s, the largest first)"


def test_what_else_is_refused():
    for text, message in {
        "900": f"'900' has no unit: {FORM}",
        "0s": "'0s' is too short: it must be above 0",
        "0h0m": "'0h0m' is too short: it must be above 0",
        "3650d1s": "'3650d1s' is longer than ten years",
        "9" * 39 + "d": f"'{'9' * 39}d' is longer than ten years",
        "9" * 5000 + "d": f"'{'9' * 40}…' is longer than ten years",
        "x" * 50: f"'{'x' * 40}…' is not a length of time: {FORM}",
    }.items():
        with pytest.raises(ValueError) as caught:
            parse_duration(text)
        assert str(caught.value) == message


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (-3, "0s"),
        (0.4, "0s"),
        (0.6, "1s"),
        (59.6, "1m"),
        (90, "1m30s"),
        (900, "15m"),
        (3600, "1h"),
        (3605, "1h"),
        (5400, "1h30m"),
        (93_784, "1d2h"),
        (86_700, "1d"),
        (14 * 86_400, "14d"),
    ],
)
def test_shown(seconds, shown):
    assert show_duration(seconds) == shown


@settings(max_examples=50)
@given(st.integers(1, 59), st.integers(1, 23))
def test_what_is_shown_can_be_read(minutes, hours):
    length = timedelta(hours=hours, minutes=minutes)
    assert parse_duration(show_duration(length.total_seconds())) == length
