"""What each host loads is of the form that its documentation asks for."""

import json
import re

import pytest
from documentation_pages import ROOT

import colony_memory
from colony_memory.shell.hooks.hosts import HOSTS

HERE = ROOT / "integrations"
OPENCLAW = HERE / "openclaw"
SKILL = HERE / "skills" / "colony-memory" / "SKILL.md"


def load(*names):
    return json.loads(HERE.joinpath(*names).read_text(encoding="utf-8"))


def handlers(document):
    """Event, group and handler of every hook."""
    return [
        (event, group, each)
        for event, groups in document["hooks"].items()
        for group in groups
        for each in group["hooks"]
    ]


def front_matter(path):
    """The fields above a Markdown text, and the text; by the letter, so that no reading of YAML can differ."""
    head, fields, body = path.read_text(encoding="utf-8").split("---\n", 2)
    assert head == ""
    return dict(line.split(": ", 1) for line in fields.splitlines()), body


def test_every_folder_is_in_the_list():
    folders = sorted(path.name for path in HERE.iterdir() if path.is_dir() and not path.name.startswith("__"))
    listed = re.findall(r"^\| `([\w-]+)` \|", (HERE / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == folders


def test_what_the_page_has_fetched_or_shows_is_there():
    page = (ROOT / "docs" / "hosts.md").read_text(encoding="utf-8")
    named = re.findall(r"https://memory\.thecolony\.cc/(integrations/\S+)", page)
    assert len(named) > 2
    assert [name for name in named if not (ROOT / name).is_file()] == []
    assert " ./integrations" not in page


def test_every_version_is_that_of_the_package():
    version = re.escape(colony_memory.__version__)
    places = {
        "claude-code/.claude-plugin/plugin.json": rf'"version": "{version}"',
        "gemini/gemini-extension.json": rf'"version": "{version}"',
        "openclaw/package.json": rf'"version": "{version}"',
        "mcp/server.json": rf'"version": "{version}"',
        "hermes/pyproject.toml": rf'version = "{version}"',
        "hermes/colony_memory_provider/plugin.yaml": rf"version: {version}\n",
        "kubernetes/agent.yaml": rf"colony-memory:{version}\n",
    }
    for name, pattern in places.items():
        text = (HERE / name).read_text(encoding="utf-8")
        assert re.search(pattern, text), name
        assert set(re.findall(r"(?<![\d.])\d+\.\d+\.\d+(?![\d.])", text)) <= {colony_memory.__version__, "127.0.0.1"}


def test_the_plugin_of_claude_code():
    manifest, market = (load("claude-code", ".claude-plugin", f"{name}.json") for name in ("plugin", "marketplace"))
    assert manifest.keys() <= {"name", "version", "description", "author", "license", "keywords", "userConfig"}
    for key, option in manifest["userConfig"].items():
        # In capitals, as the variable of a hook has it in every version.
        assert re.fullmatch(r"[A-Z][A-Z_]*", key)
        assert {"type", "title", "description"} <= option.keys()
        assert option.keys() <= {"type", "title", "description", "required", "default"}
        assert option["type"] in ("string", "directory", "number")
    (listed,) = market["plugins"]
    assert (market["owner"].keys(), listed["name"], listed["source"]) == ({"name"}, manifest["name"], "./")
    found = handlers(load("claude-code", "hooks", "hooks.json"))
    assert [event for event, _, _ in found] == [*HOSTS["claude-code"].tells, *HOSTS["claude-code"].saves]
    for _, group, each in found:
        assert (group.keys(), each.keys()) == ({"hooks"}, {"type", "command", "timeout"})
        assert set(re.findall(r"CLAUDE_PLUGIN_OPTION_(\w+)", each["command"])) == set(manifest["userConfig"])
        assert "user_config" not in each["command"]  # which is not taken in a command for a shell


def test_the_hooks_of_codex():
    document = load("codex", "hooks.json")
    assert document.keys() == {"hooks"}
    found = handlers(document)
    assert [event for event, _, _ in found] == [*HOSTS["codex"].tells, *HOSTS["codex"].saves]
    assert all(isinstance(each["timeout"], int) and each["type"] == "command" for _, _, each in found)


def test_the_extension_of_gemini():
    manifest = load("gemini", "gemini-extension.json")
    declared = {each["envVar"] for each in manifest["settings"]}
    assert all({"name", "description", "envVar"} <= each.keys() for each in manifest["settings"])
    assert [each["envVar"] for each in manifest["settings"] if each.get("sensitive")] == ["COLONY_API_KEY"]
    found = handlers(load("gemini", "hooks", "hooks.json"))
    assert [event for event, _, _ in found] == [*HOSTS["gemini"].tells, *HOSTS["gemini"].saves]
    for _, _, each in found:
        # What is not declared is kept from it.
        assert set(re.findall(r"COLONY_\w+", each["command"])) <= declared
        assert each["timeout"] > 1000


def test_the_hook_pack_of_openclaw():
    (folder,) = load("openclaw", "package.json")["openclaw"]["hooks"]
    path = (OPENCLAW / folder).resolve()
    assert path.is_relative_to(OPENCLAW)
    assert (path / "handler.js").is_file()
    fields, _ = front_matter(path / "HOOK.md")
    told = json.loads(fields["metadata"])["openclaw"]
    assert fields["name"] == path.name
    assert told["events"] == [*HOSTS["openclaw"].tells, *HOSTS["openclaw"].saves]
    assert told["requires"] == {"bins": ["colony-memory"], "env": ["COLONY_MEMORY_FOLDER"]}


def test_the_skill_is_the_page_for_agents():
    assert SKILL.read_text(encoding="utf-8") == (ROOT / "skill.md").read_text(encoding="utf-8")


def test_the_skill_is_one_by_the_specification():
    fields, body = front_matter(SKILL)
    assert {"name", "description"} <= fields.keys()
    assert fields.keys() <= {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
    assert fields["name"] == SKILL.parent.name
    assert len(fields["description"]) <= 1024
    assert "Use " in fields["description"]
    assert len(fields["compatibility"]) <= 500
    assert len(body.splitlines()) < 500
    yaml = pytest.importorskip("yaml")
    for path in (SKILL, OPENCLAW / "hooks" / "colony-memory" / "HOOK.md"):
        read, plain = yaml.safe_load(path.read_text(encoding="utf-8").split("---\n", 2)[1]), front_matter(path)[0]
        assert read.keys() == plain.keys()
        assert all(str(value) == plain[name].strip('"') for name, value in read.items() if isinstance(value, str))


def test_the_description_of_the_mcp_server():
    server = load("mcp", "server.json")
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", server["name"])
    assert max(len(server["description"]), len(server["title"])) <= 100
    (package,) = server["packages"]
    assert [package[name] for name in ("registryType", "identifier", "runtimeHint")] == ["pypi", "colony-memory", "uvx"]
    assert package["transport"] == {"type": "stdio"}
    first, folder = package["packageArguments"]
    assert (first["type"], first["value"]) == ("positional", "mcp")
    assert folder["isRequired"]
    assert "value" not in folder  # so the person is asked
    for argument in (*package["packageArguments"], *package["runtimeArguments"]):
        assert argument["type"] == ("named" if "name" in argument else "positional")
        assert {"value", "valueHint"} & argument.keys()
    assert [each["name"] for each in package["environmentVariables"] if each.get("isSecret")] == ["COLONY_API_KEY"]


def test_the_readme_says_whose_the_mcp_server_is():
    """By this line, in what the package index shows of a release, registries tell that both are of one owner."""
    name = load("mcp", "server.json")["name"]
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if "mcp-name" in line] == [f"<!-- mcp-name: {name} -->"]


def test_what_is_yaml():
    yaml = pytest.importorskip("yaml")
    found = sorted([*HERE.rglob("*.yml"), *HERE.rglob("*.yaml")])
    assert len(found) > 3
    for path in found:
        assert all(isinstance(each, dict) for each in yaml.safe_load_all(path.read_text(encoding="utf-8"))), path


def test_all_of_it_is_in_the_source_distribution():
    assert '"/integrations"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
