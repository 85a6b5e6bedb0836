"""What a configuration file may say, and what each mistake in one is answered with."""

import os
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from colony_memory.retention import Retention
from colony_memory.shell.app.config import SETTINGS, Setting, effective, load_config, make_retention, read_config

if sys.version_info < (3, 11):
    pytest.importorskip("tomli")

from hypothesis import given, settings
from hypothesis import strategies as st

from colony_memory.shell.app.config import parse_duration, show_duration

PATH = Path("/etc/x.toml")


@pytest.fixture(autouse=True)
def _home(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")


def read(document):
    return read_config(document, path=PATH)


def test_everything_that_may_stand_in_one():
    config = read(
        {
            "vault": "~/vault",
            "label": " Notes ",
            "key_file": "~/keys/a.pem",
            "format": 2,
            "encrypt_to": ["age1x", "passphrase"],
            "identity": ["~/keys/age.txt", "passphrase"],
            "exclude": "*.log",
            "keep": 3,
            "keep_within": "2d",
        }
    )
    assert config.exists
    assert dict(config.settings) == {
        "vault": "/home/ada/vault",
        "label": "notes",
        "key_file": "/home/ada/keys/a.pem",
        "format": "2",
        "encrypt_to": ["age1x", "passphrase"],
        "identity": ["/home/ada/keys/age.txt", "passphrase"],
        "exclude": ["*.log"],
        "keep": 3,
        "keep_within": "2d",
    }
    assert make_retention({"keep": 3, "keep_within": "2d"}) == Retention(keep_last=3, keep_within=timedelta(days=2))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"valut": "x"}, "valut is not known; did you mean vault?"),
        ({"zzz": 1}, "zzz is not known; keys are vault, label, key_file, "),
        ({"key-file": "/k"}, "key-file is not known; did you mean key_file?"),
        ({"api_key": "col_secret"}, "api_key: secrets do not belong in this file; "),
        ({"sets": {"a": {"paths": ["/a"]}}}, r"\[sets\]: tables are not supported; put settings"),
        ({"label": "A b"}, "label: label 'A b' cannot be used as it is"),
        ({"keep": 0}, "keep: must be a whole number from 1 up"),
        ({"keep_within": "2 fortnights"}, "keep_within: '2 fortnights' is not a len"),
        ({"vault": "nas"}, "vault: must be a URL or an absolute path, not 'nas'"),
        ({"vault": 3}, "vault: must be a text"),
        ({"witness": "/$HOME/x"}, "witness: holds a variable, which is not expanded here"),
        ({"trust": [" "]}, "trust: must be a list of texts, none of them empty"),
        ({"encrypt_to": "to.txt"}, "encrypt_to: must be an absolute path, or begin with ~/, where it is no recipient"),
        ({"before": "./tell --now"}, "before: must name its program by an absolute path, or by a name that is on"),
        ({"before": "tell 'x"}, 'before: "tell \'x" is not a command: No closing quotation'),
        ({"secrets": "ask"}, "secrets: must be stop, warn, mask or allow"),
        ({"format": 3}, "format: must be 1 or 2"),
        ({"every": "15"}, "every: '15' is not a length"),
        ({"exclude": ["!"]}, "exclude: '!' is not a rule of gitignore"),
    ],
)
def test_each_mistake_is_named_by_its_key(document, message):
    with pytest.raises(ValueError, match=f"^{message}") as caught:
        read(document)
    assert "col_secret" not in str(caught.value)


STRANGE = [
    None, True, 0, -1, 1.5, "", " ", "x", "~", "~/a", "/a", "/a\0", "$X", "7d", "!", "\udc80", "\x1b[2J", [], [[]],
    [1], ["x", ""], {}, {"": 1}, [{}],
]  # fmt: skip


@pytest.mark.parametrize("key", SETTINGS)
def test_whatever_stands_in_it_is_right_or_an_error_that_says_why(key):
    told = []
    for value in STRANGE:
        try:
            read({key: value})
        except ValueError as error:
            told.append(str(error))
    assert len(told) > len(STRANGE) / 2
    assert all(key in each for each in told)


def test_what_may_be_a_key_itself_is_not_repeated():
    with pytest.raises(ValueError, match=r"^key_file: must be an absolute path") as caught:
        read({"key_file": "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"})
    assert "9d61" not in str(caught.value)


def test_options_before_variables_before_the_file():
    config = read({"vault": "/nas", "secrets": "warn", "exclude": ["a"]})
    options = {"vault": Setting("usb", ("--vault",)), "exclude": Setting(["c"], ("--exclude",))}
    found = effective(config, options)
    assert {name: (each.value, each.sources) for name, each in found.items()} == {
        "vault": ("usb", ("--vault",)),
        "exclude": (["a", "c"], ("exclude", "--exclude")),
        "secrets": ("warn", ("secrets",)),
    }


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
    with pytest.raises(ValueError, match=rf"belongs to another user \({owner}\), so it is not trusted"):
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
        ("1h 30m", 5400),
        (" 2d ", 172_800),
        ("1w2d3h4m5s", 604_800 + 2 * 86_400 + 3 * 3600 + 4 * 60 + 5),
        ("0h5m", 300),
        ("007s", 7),
        ("3650d", 3650 * 86_400),
    ],
)
def test_durations(text, seconds):
    assert parse_duration(text) == timedelta(seconds=seconds)


FORM = "write it like 90s, 15m, 1h30m or 2d (weeks w, days d, hours h, minutes m, seconds s, the largest first)"


def test_what_else_is_refused():
    for text, message in {
        "900": f"'900' is not a length of time: {FORM}",
        "0h0m": "'0h0m' is too short: it must be above 0",
        "3650d1s": "'3650d1s' is longer than ten years",
        "9" * 5000 + "d": f"'{'9' * 40}…' is not a length of time: {FORM}",
        "x" * 50: f"'{'x' * 40}…' is not a length of time: {FORM}",
    }.items():
        with pytest.raises(ValueError) as caught:
            parse_duration(text)
        assert str(caught.value) == message


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (0.6, "1s"),
        (59.6, "1m"),
        (90, "1m30s"),
        (3605, "1h"),
        (5400, "1h30m"),
        (93_784, "1d2h"),
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
