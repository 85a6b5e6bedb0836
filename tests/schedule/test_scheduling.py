"""The units, the crontab and the lines that the page about scheduling shows."""

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from documentation_pages import ROOT, read, read_blocks

from colony_memory.shell.app.config import parse_duration

PAGE = ROOT / "docs" / "scheduling.md"
TEXT = read(PAGE)
#: Each unit that is shown, by the last name before it.
UNITS = {
    re.findall(r"colony-memory-\w+\.(?:service|timer)", TEXT[: block.start()])[-1]: block[1]
    for block in re.finditer(r"^```text\n(\[.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
}
# What the timer starts is told in words.
LINES = re.findall(r"`(Type=\w+|ExecStart=[^`]+backup [^`]+)`|^(EnvironmentFile=.*)", TEXT, re.MULTILINE)
UNITS["colony-memory-backup.service"] = "\n".join(["[Service]", *(" ".join("".join(each).split()) for each in LINES)])
SERVICES = sorted(name for name in UNITS if name.endswith(".service"))


def unit(name):
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str
    parser.read_string(UNITS[name])
    return parser


def test_systemd_takes_the_units(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze")
    # It looks whether the command is there.
    for name, text in UNITS.items():
        assert "%h/.local/bin/colony-memory " in text or name.endswith(".timer")
        (tmp_path / name).write_text(text.replace("%h/.local/bin/colony-memory", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", *(str(tmp_path / name) for name in sorted(UNITS))],
        env={"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    # It warns of what it does not know, and succeeds.
    assert [line for line in done.stderr.splitlines() if str(tmp_path) in line or "colony-memory" in line] == []


@pytest.mark.parametrize("name", SERVICES)
def test_the_commands_of_the_services_are_right(name):
    pytest.importorskip("click")
    from colony_memory.shell.cli.program import verb_of

    service = unit(name)["Service"]
    program, verb, *rest = service["ExecStart"].split()
    assert program == "%h/.local/bin/colony-memory"
    command = verb_of(verb)
    # A command keeps the names of its help from the first that calls it.
    named = {"help_option_names": ["-h", "--help"]}
    assert command.make_context(verb, list(rest), **named).params["paths"] == ("%h/agent/memory",)
    assert service["EnvironmentFile"] == "%h/.config/colony-memory/env"


def test_systemd_waits_for_the_last_backup():
    service = unit("colony-memory-watch.service")["Service"]
    (patience,) = re.findall(r"--final-timeout (\S+)", service["ExecStart"])
    assert int(service["TimeoutStopSec"]) > parse_duration(patience).total_seconds()


def test_the_file_of_the_key_is_made_for_its_owner_alone(tmp_path):
    (block,) = (block for block in read_blocks(PAGE) if block.heading == "The key")
    subprocess.run(["bash", "-euc", block.text], env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}, check=True)
    assert (tmp_path / ".config/colony-memory/env").stat().st_mode & 0o777 == 0o600


def test_the_crontab_is_read_by_cron_as_it_is_meant():
    blocks = [block for block in read_blocks(PAGE) if block.language == "crontab"]
    assert [block.heading for block in blocks] == ["cron", "Being told of failure", "Is it working?"]
    for block in blocks:
        (line,) = block.text.splitlines()
        fields, command = line.split(None, 5)[:5], line.split(None, 5)[5]
        for field, (low, high) in zip(fields, [(0, 59), (0, 23), (1, 31), (1, 12), (0, 7)], strict=True):
            found = re.fullmatch(r"(?:\*(?:/(\d+))?|(\d+))", field)
            assert found, field
            assert all(low <= int(number) <= high for number in found.groups() if number), field
        assert "%" not in command.replace("\\%", ""), "cron ends the command at a percent sign"
        assert "--quiet" in command
        assert subprocess.run(["sh", "-n", "-c", command], check=False).returncode == 0
        # The last command's exit code is the line's.
        assert command.rpartition(";")[2].strip().startswith("colony-memory ")


def test_a_crontab_line_is_silent_only_where_nothing_is_wrong(tmp_path):
    pytest.importorskip("click")
    (block,) = (block for block in read_blocks(PAGE) if block.heading == "cron" and block.language == "crontab")
    command = block.text.strip().split(None, 5)[5]
    env = {"HOME": str(tmp_path), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}

    def run():
        done = subprocess.run(["sh", "-c", command], env=env, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr

    code, told = run()
    assert code != 0
    assert "colony-memory/env" in told
    (tmp_path / ".config/colony-memory").mkdir(parents=True)
    (tmp_path / ".config/colony-memory/env").touch()
    code, told = run()
    assert code == 2
    assert told.startswith("error: ")
    (tmp_path / "agent/memory").mkdir(parents=True)
    (tmp_path / "agent/memory/MEMORY.md").write_text("hello")
    code, told = run()
    assert code == 0
    assert told.startswith("warning: no vault was chosen, so one was made: ")
    assert run() == (0, "")
