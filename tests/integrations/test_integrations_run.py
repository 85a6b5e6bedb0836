"""What each host would run does what it is for: hooks, a pack for OpenClaw, an image, a Deployment, an action."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from documentation_pages import ROOT

pytest.importorskip("click")

from colony_memory import ColonyMemory
from colony_memory.vaults.local import LocalVault

HERE = ROOT / "integrations"
pytestmark = [pytest.mark.once, pytest.mark.skipif(os.name == "nt", reason="POSIX")]


@pytest.fixture
def vault(tmp_path):
    return LocalVault(tmp_path / "vault", create=True)


@pytest.fixture
def memory(tmp_path):
    path = tmp_path / "my memory"
    path.mkdir()
    (path / "MEMORY.md").write_text("two years")
    return path


@pytest.fixture
def settings(tmp_path, vault):
    """The environment of a host, with the command on its path."""
    return {
        **os.environ,
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLONY_MEMORY_VAULT": str(vault.path),
    }


def shell(script, settings, *, code=0, **options):
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script],
        env=settings,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **{"stdin": subprocess.DEVNULL, **options} if "input" not in options else options,
    )
    assert done.returncode == code, done.stderr
    return done


def saved(vault, label="default"):
    return ColonyMemory(backend=vault).list_snapshots(label=label)


def document(name):
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((HERE / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("host", ["claude-code", "gemini"])
def test_the_command_of_the_hooks(vault, memory, settings, host):
    path = HERE / host / "hooks" / "hooks.json"
    groups = json.loads(path.read_text(encoding="utf-8"))["hooks"]
    ((command,),) = {tuple({each["hooks"][0]["command"] for each in event}) for event in groups.values()}
    if host == "claude-code":
        names = {
            "MEMORY_FOLDER": str(memory),
            "VAULT": settings.pop("COLONY_MEMORY_VAULT"),
            "LABEL": "research",
            "KEEP": "96",
        }
        settings |= {f"CLAUDE_PLUGIN_OPTION_{name}": value for name, value in names.items()}
    else:
        settings |= {"COLONY_MEMORY_FOLDER": str(memory), "COLONY_MEMORY_LABEL": "research"}
    said = json.dumps({"hook_event_name": [*groups][1], "cwd": "/"})
    assert shell(command, settings, input=said).stdout == "{}\n"
    assert len(saved(vault, "research")) == 1


def test_the_pack_of_openclaw(vault, memory, settings, tmp_path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node")
    handler = HERE / "openclaw" / "hooks" / "colony-memory" / "handler.js"
    script = f"""
        import handler from {json.dumps(handler.as_uri())};
        const told = [];
        for (const [type, action] of EVENTS) {{
          const event = {{ type, action, messages: [], context: {{ workspaceDir: "/etc" }}, timestamp: new Date() }};
          await handler(event);
          told.push(event.messages);
        }}
        console.log(JSON.stringify(told));
    """
    settings["COLONY_MEMORY_FOLDER"] = str(memory)

    def run(*events):
        done = subprocess.run(
            [node, "--input-type=module", "-e", script.replace("EVENTS", json.dumps(events))],
            env=settings,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        *said, told = done.stdout.splitlines()
        return said, json.loads(told)

    said, told = run(["gateway", "startup"], ["session", "compact:before"])
    assert said == [re.sub(r"\s+", " ", line) for line in said]
    assert "Nothing is saved of it yet." in said[0]
    assert told == [[], []]
    assert len(saved(vault)) == 1
    vault.path.rename(tmp_path / "away")
    (memory / "MEMORY.md").write_text("and a day")
    _, told = run(["command", "new"])
    assert all("not saved" in each[0] for each in told)
    settings["PATH"] = "/nowhere"
    _, told = run(["command", "new"])
    assert all("not saved" in each[0] for each in told)


@pytest.mark.long
def test_the_image(vault, memory, settings):
    text = (HERE / "container" / "Dockerfile").read_text(encoding="utf-8")
    entry, health, command = (
        json.loads(re.search(rf"^{word} (\[.*\])$", text.replace("\\\n ", ""), re.MULTILINE)[1])
        for word in ("ENTRYPOINT", r"HEALTHCHECK .* CMD", "CMD")
    )
    assert command == ["python", "agent.py"]
    words = [str(memory) if word == "/home/agent/memory" else word for word in entry]
    agent = ["sh", "-c", f"echo more > '{memory}/more.md'"]
    subprocess.run([*words, *agent], env=settings, stdin=subprocess.DEVNULL, timeout=120, check=True)
    assert "more.md" in ColonyMemory(backend=vault).restore()
    subprocess.run(health, env=settings, timeout=120, check=True)
    compose = document("container/compose.yaml")["services"]["agent"]
    # The last backup, and the agent's own time before it.
    assert int(compose["stop_grace_period"].removesuffix("s")) > 2 * int(words[words.index("--final-timeout") + 1][:-1])


@pytest.mark.long
def test_the_deployment(vault, memory, settings, tmp_path):
    spec = document("kubernetes/agent.yaml")["spec"]
    pod = spec["template"]["spec"]
    assert (spec["replicas"], spec["strategy"]["type"]) == (1, "Recreate")
    restore, watch = pod["initContainers"]
    (agent,) = pod["containers"]
    assert "restartPolicy" not in restore
    assert watch["restartPolicy"] == "Always"
    volumes = {volume["name"] for volume in pod["volumes"]}
    for each in (restore, watch, agent):
        assert {mount["name"] for mount in each["volumeMounts"]} <= volumes
        assert {"name": "memory", "mountPath": "/memory"} in each["volumeMounts"]
    settings |= {each["name"]: each["value"] for each in watch["env"]}
    settings |= {"XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path)}
    label, here = settings["COLONY_MEMORY_LABEL"], str(tmp_path / "pod")

    def run(container, *, code=0):
        command = [word.replace("/memory", here) for word in container["command"]]
        return (
            subprocess.run(command, env=settings, stdin=subprocess.DEVNULL, timeout=120, check=False).returncode == code
        )

    probe = watch["readinessProbe"]["exec"]
    assert run(restore)
    assert run(probe, code=3)
    command = [word.replace("/memory", here) for word in watch["command"]]
    Path(here).mkdir(exist_ok=True)
    # Ended while it still waits for the agent to write something.
    with subprocess.Popen(command, env=settings, stdin=subprocess.DEVNULL) as waiting:
        time.sleep(0.5)
        waiting.send_signal(signal.SIGTERM)
        assert waiting.wait(60) == 0
    Path(here, "MEMORY.md").write_text("first")
    with subprocess.Popen(
        command, env=settings, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as watching:
        assert "saved" in watching.stdout.readline()
        assert run(probe)
        Path(here, "MEMORY.md").write_text("last")
        watching.send_signal(signal.SIGTERM)
        assert watching.wait(60) == 0
    assert ColonyMemory(backend=vault).restore(label=label)["MEMORY.md"] == "last"
    Path(here, "MEMORY.md").write_text("left by a restart")
    assert run(restore)
    shutil.rmtree(here)
    assert run(restore)
    assert Path(here, "MEMORY.md").read_text() == "left by a restart"
    shutil.rmtree(here)
    vault.path.rename(tmp_path / "away")
    assert not run(restore)
    assert pod["terminationGracePeriodSeconds"] > 20


@pytest.mark.long
def test_the_action(vault, memory, settings, tmp_path):
    action = document("github-action/action.yml")
    _, step = action["runs"]["steps"]
    assert "${{" not in step["run"]
    inputs = {name: each.get("default") for name, each in action["inputs"].items()}

    def run(code=0, **given):
        values = {**inputs, "vault": str(vault.path), "folder": str(memory), **given}
        names = {key: re.fullmatch(r"\$\{\{ inputs\.(\w+) \}\}", value)[1] for key, value in step["env"].items()}
        own = {key: values[name] for key, name in names.items()}
        return shell(step["run"], {**settings, **own}, code=code, cwd=tmp_path)

    run(do="backup", label="job")
    shutil.rmtree(memory)
    run(do="restore", label="job")
    assert (memory / "MEMORY.md").read_text() == "two years"
    assert len(saved(vault, "job")) == 1
    run(2, do="; touch made")
    run(2, do="backup", folder="$(touch made)")
    assert not (tmp_path / "made").exists()
    vault.path.rename(tmp_path / "away")
    run(1, do="restore")  # what test has for anything but 3
