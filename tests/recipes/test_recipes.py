"""Every recipe runs as it stands: those over other frameworks with the real one, in an environment of its own."""

import ast
import json
import re
import runpy
import shutil
import socket
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
from published.environments import REPOSITORY, clean_environ, environment

RECIPES = REPOSITORY / "examples" / "recipes"
PAGES = [REPOSITORY / "docs" / "recipes.md", REPOSITORY / "docs" / "events.md"]
OWN = ["agentmemory_database", "lifecycle_asyncio", "memory_set", "scoped_memory"]
LANGGRAPH = ("langgraph>=1,<2", "langgraph-checkpoint-sqlite>=3,<4")
FRAMEWORKS = {
    "langgraph_checkpointer": ("langgraph", *LANGGRAPH),
    "langgraph_store": ("langgraph", *LANGGRAPH),
    "lifecycle_langgraph": ("langgraph", *LANGGRAPH),
    "lifecycle_openai_agents": ("openai-agents", "openai-agents>=0.24,<1"),
    "lifecycle_pydantic_ai": ("pydantic-ai", "pydantic-ai-slim>=2,<3"),
    "opentelemetry_metrics": ("opentelemetry", "opentelemetry-sdk>=1.30,<2"),
    "store_between_writes": ("between-writes", "duckdb>=1", "faiss-cpu>=1.8", "numpy"),
    "store_lmdb": ("lmdb", "lmdb>=1.4"),
    "prometheus_metrics": ("prometheus", "prometheus_client>=0.20,<1"),
}
AGENT_FILE = {
    "agents": [
        {
            "id": "agent-0",
            "name": "Ada",
            "agent_type": "letta_v1_agent",
            "block_ids": ["block-0"],
            "in_context_message_ids": ["message-0"],
            "messages": [
                {
                    "id": "message-0",
                    "type": "message",
                    "role": "user",
                    "content": [{"type": "text", "text": "I like tea\u2028and\nrain"}],
                    "agent_id": "agent-0",
                }
            ],
        },
        {"id": "agent-1", "name": "Bob", "messages": []},
    ],
    "groups": [],
    "blocks": [{"id": "block-0", "label": "human", "value": "likes tea", "limit": 20000}],
    "files": [],
    "sources": [],
    "tools": [],
    "mcp_servers": [],
    "metadata": {"revision_id": "0"},
    "created_at": "2026-11-01T12:00:00Z",
}
LETTA = """
import json, sys
from letta.schemas.agent_file import AgentFileSchema
sys.path.insert(0, sys.argv[1])
from letta_agent_file import agent_file_to_documents, documents_to_agent_file
# As Letta exports it: with the times and ids that it adds.
before = AgentFileSchema.model_validate_json(open(sys.argv[2]).read())
text = before.model_dump_json()
after = AgentFileSchema.model_validate_json(documents_to_agent_file(agent_file_to_documents(text)))
assert after.model_dump() == before.model_dump()
print(len(before.agents), len(before.agents[0].messages))
"""


def run(python, *arguments):
    command = [str(python), "-W", "ignore", *map(str, arguments)]
    done = subprocess.run(command, env=clean_environ(), capture_output=True, encoding="utf-8", timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def with_framework(name, *installs):
    return environment(f"recipe-{name}", (*installs, "-e", REPOSITORY))


def test_every_recipe_is_run_here_and_told_of_in_a_page():
    told = set(re.findall(r"examples/recipes/(\w+)\.py", "".join(page.read_text(encoding="utf-8") for page in PAGES)))
    apart = {"hugging_face_vault", "letta_agent_file", "nats_events"}
    assert {path.stem for path in RECIPES.glob("*.py")} == {*OWN, *FRAMEWORKS, *apart} == told


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.py")), ids=lambda path: path.stem)
def test_a_recipe_uses_nothing_that_is_not_public(path):
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    assert ast.get_docstring(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("colony_memory"):
            names = [*node.module.split("."), *(alias.name for alias in node.names)]
            assert not any(name.startswith("_") for name in names), names
        if isinstance(node, ast.Attribute):
            assert not re.match(r"_[a-z]", node.attr) or node.attr == "_ask", node.attr


@pytest.mark.parametrize("name", OWN)
def test_a_recipe_that_needs_nothing_more_runs(name, capsys):
    if name == "memory_set" and shutil.which("git") is None:
        pytest.skip("there is no git")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=ResourceWarning)
        runpy.run_path(str(RECIPES / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out


def test_an_agent_file_is_taken_apart_and_put_together(tmp_path, capsys, monkeypatch):
    (tmp_path / "ada.af").write_text(json.dumps(AGENT_FILE), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["letta_agent_file.py", str(tmp_path / "ada.af")])
    recipe = runpy.run_path(str(RECIPES / "letta_agent_file.py"), run_name="__main__")
    assert capsys.readouterr().out == "6 documents\n"
    documents = recipe["agent_file_to_documents"](json.dumps(AGENT_FILE))
    assert documents["letta/agents/00000.messages.jsonl"].count("\n") == 1
    many = {"messages": [{"n": n} for n in range(11)], "blocks": [], "version": "0.7.29"}
    assert json.loads(recipe["documents_to_agent_file"](recipe["agent_file_to_documents"](json.dumps(many)))) == many


# With the real thing


@pytest.mark.long
@pytest.mark.network
@pytest.mark.parametrize("name", sorted(FRAMEWORKS))
def test_a_recipe_runs_with_its_framework(name):
    assert run(with_framework(*FRAMEWORKS[name]), RECIPES / f"{name}.py")


@pytest.mark.long
@pytest.mark.network
def test_a_dataset_is_a_vault():
    python = with_framework("hub", "huggingface-hub>=1,<3", "pytest<9")
    here = Path(__file__).parent
    alone = ("-p", "no:cacheprovider", "-c", "/dev/null", f"--rootdir={here}", f"--confcutdir={here}")
    said = run(python, "-m", "pytest", "-q", *alone, here / "hub_in_memory.py")
    assert re.search(r"\d\d passed", said), said


@pytest.mark.long
@pytest.mark.network
def test_letta_takes_what_comes_back(tmp_path):
    (tmp_path / "ada.af").write_text(json.dumps({**AGENT_FILE, "agents": AGENT_FILE["agents"][:1]}), encoding="utf-8")
    assert (
        run(with_framework("letta", "letta==0.16.7", "asyncpg"), "-c", LETTA, RECIPES, tmp_path / "ada.af") == "1 1\n"
    )


@pytest.mark.long
@pytest.mark.network
def test_events_on_nats(tmp_path):
    server = shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin")
    if server is None:
        pytest.skip("there is no nats-server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with subprocess.Popen([server, "-a", "127.0.0.1", "-p", str(port), "-l", str(tmp_path / "log")]) as process:
        try:
            while True:
                assert process.poll() is None, (tmp_path / "log").read_text(encoding="utf-8")
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            said = run(
                with_framework("nats", "nats-py>=2.6,<3"), RECIPES / "nats_events.py", f"nats://127.0.0.1:{port}"
            )
        finally:
            process.terminate()
    assert said == "colony.memory.created.ada 3\ncolony.memory.restored.ada 0\n"
