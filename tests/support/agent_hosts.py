"""Folders as hosts of agents leave them behind: memory, and all that is none."""

TOKEN = "sk-ant-oat01-" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE" * 2

CLAUDE_CODE = {
    "CLAUDE.md": "# How I work\n",
    "rules/python.md": "Use ruff.\n",
    "agent-memory/reviewer/MEMORY.md": "Likes short functions.\n",
    "projects/-home-ada-work-app/memory/MEMORY.md": "- [deploy](deploy.md)\n",
    "projects/-home-ada-work-app/memory/deploy.md": "make deploy\n",
    "projects/-home-ada-work-app/memory/logs/old.log": "noise\n",
    "projects/-home-ada-work-app/0f3c.jsonl": '{"type":"user","cwd":"/home/ada/work/app"}\n',
    "projects/-home-ada-work-app/0f3c/tool-results/1.txt": "out\n",
    "projects/-home-ada-old/77aa.jsonl": "{}\n",
    ".credentials.json": f'{{"claudeAiOauth":{{"accessToken":"{TOKEN}"}}}}\n',
    "settings.json": '{"hooks":{}}\n',
    "history.jsonl": "{}\n",
    "plugins/cache/x/plugin.json": "{}\n",
    "shell-snapshots/s.sh": "export A=1\n",
    "todos/1.json": "[]\n",
    "statsig/cached": "x\n",
}
CLAUDE_CODE_MEMORY = {
    "CLAUDE.md",
    "rules/python.md",
    "agent-memory/reviewer/MEMORY.md",
    "projects/-home-ada-work-app/memory/MEMORY.md",
    "projects/-home-ada-work-app/memory/deploy.md",
}

OPENCLAW = {
    "workspace/AGENTS.md": "Read memory first.\n",
    "workspace/SOUL.md": "Kind.\n",
    "workspace/USER.md": "Ada.\n",
    "workspace/IDENTITY.md": "Lobster.\n",
    "workspace/MEMORY.md": "two years\n",
    "workspace/memory/2026-11-27.md": "rain\n",
    "workspace/skills/tide/SKILL.md": "---\nname: tide\n---\n",
    "workspace/projects/garden/plan.md": "beans\n",
    "workspace/projects/garden/node_modules/x/index.js": "0\n",
    "workspace/.env": f"ANTHROPIC_API_KEY={TOKEN}\n",
    "workspace/server.key": "-----BEGIN PRIVATE KEY-----\n",
    "workspace/gateway.log": "noise\n",
    "workspace-ada/MEMORY.md": "another agent\n",
    "openclaw.json": '{agents: {defaults: {workspace: "~/.openclaw/workspace"}}}\n',
    "credentials/oauth.json": "{}\n",
    "agents/main/sessions/1.jsonl": "{}\n",
}
OPENCLAW_MEMORY = {
    "AGENTS.md",
    "SOUL.md",
    "USER.md",
    "IDENTITY.md",
    "MEMORY.md",
    "memory/2026-11-27.md",
    "skills/tide/SKILL.md",
    "projects/garden/plan.md",
}

HERMES = {
    "SOUL.md": "Curious.\n",
    "memories/MEMORY.md": "uses pnpm\n\u00a7\nlives by the sea\n",
    "memories/USER.md": "Ada\n",
    "memories/MEMORY.md.lock": "",
    "skills/deploy/SKILL.md": "---\nname: deploy\n---\n",
    "plans/move.md": "by train\n",
    "profiles/coder/SOUL.md": "Terse.\n",
    "profiles/coder/memories/MEMORY.md": "tabs\n",
    "profiles/coder/.env": "X=1\n",
    "profiles/coder/state.db": "x",
    "config.yaml": "model: x\n",
    ".env": f"OPENROUTER_API_KEY={TOKEN}\n",
    "auth.json": "{}\n",
    "state.db": "x",
    "sessions/1.json": "{}\n",
    "logs/errors.log": "noise\n",
    "hermes-agent/run_agent.py": "pass\n",
    "cache/a": "x",
}
HERMES_MEMORY = {
    "SOUL.md",
    "memories/MEMORY.md",
    "memories/USER.md",
    "skills/deploy/SKILL.md",
    "plans/move.md",
    "profiles/coder/SOUL.md",
    "profiles/coder/memories/MEMORY.md",
}

CODEX = {
    "AGENTS.md": "Be brief.\n",
    "AGENTS.override.md": "Be briefer.\n",
    "memories/MEMORY.md": "# Handbook\n",
    "memories/memory_summary.md": "v1\n",
    "memories/raw_memories.md": "raw\n",
    "memories/rollout_summaries/2026-11-27-x.md": "did it\n",
    "memories/skills/tide/SKILL.md": "---\nname: tide\n---\n",
    "memories/.git/HEAD": "ref: refs/heads/main\n",
    "config.toml": "model = 'x'\n",
    "auth.json": f'{{"OPENAI_API_KEY":"{TOKEN}"}}\n',
    "sessions/2026/11/27/rollout-1.jsonl": "{}\n",
    "log/codex-tui.log": "noise\n",
    "history.jsonl": "{}\n",
    "state_5.sqlite": "x",
}
CODEX_MEMORY = {
    "AGENTS.md",
    "AGENTS.override.md",
    "memories/MEMORY.md",
    "memories/memory_summary.md",
    "memories/raw_memories.md",
    "memories/rollout_summaries/2026-11-27-x.md",
    "memories/skills/tide/SKILL.md",
}

#: By name: the folder in a home, what is in it, and what of that is memory, by its name in a snapshot.
HOSTS = {
    "claude-code": (".claude", CLAUDE_CODE, CLAUDE_CODE_MEMORY),
    "openclaw": (".openclaw", OPENCLAW, OPENCLAW_MEMORY),
    "hermes": (".hermes", HERMES, HERMES_MEMORY),
    "codex": (".codex", CODEX, CODEX_MEMORY),
}


def make_host(home, name):
    """The folder of that host in a home; where its memory is."""
    folder, files, _ = HOSTS[name]
    for path, text in files.items():
        place = home / folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    return home / folder / "workspace" if name == "openclaw" else home / folder
