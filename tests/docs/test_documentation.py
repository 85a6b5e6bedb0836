"""What the documents say is true: every snippet and command in them runs, and every name in them is there."""

import doctest
import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from documentation_pages import (
    BUILDING,
    CHANGELOG,
    PAGES,
    README,
    ROOT,
    is_installation,
    need_extras,
    open_stage,
    read,
    read_blocks,
)

import colony_memory
from colony_memory import exceptions

__all__ = ["open_stage"]


BLOCKS = [block for page in PAGES for block in read_blocks(page)]
RUNNING = [block for block in BLOCKS if block.runs]
DOCUMENTS = [*PAGES, CHANGELOG, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
DOCTESTED = (
    "colony_memory",
    "colony_memory.shell.app.run",
    "colony_memory.shell.app.save",
    "colony_memory.client._verbs",
    "colony_memory.signing",
)
NEEDS = {"colony_memory.signing": "cryptography"}


def without_fences(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


# Snippets and commands


@pytest.mark.once
@pytest.mark.parametrize("block", RUNNING, ids=str)
def test_block_runs(open_stage, block):
    need_extras(block)
    open_stage(block.page).run(block)


def test_every_block_is_of_a_kind_that_is_looked_at():
    kinds = {"python", "sh", "console", "crontab", "json", "text", "toml"}
    assert [str(block) for block in BLOCKS if block.language not in kinds] == []
    assert len(RUNNING) > 50


def test_json_is_json():
    for block in BLOCKS:
        if block.language == "json":
            assert isinstance(json.loads(block.text), dict), block


@pytest.mark.parametrize("heading", BUILDING)
def test_readme_has_one_line_for_a_newcomer(heading):
    blocks = [block for block in read_blocks(README) if block.heading == heading]
    assert [block.language for block in blocks] == ["sh"]
    assert len(blocks[0].text.splitlines()) == 1


@pytest.mark.once
def test_the_line_to_try_it_shows_that_nothing_differs(tmp_path, monkeypatch):
    pytest.importorskip("click")
    (block,) = (block for block in read_blocks(README) if block.heading == "Try it")
    steps = block.text.strip().split(" && ")
    building, using = steps[:3], steps[3:]
    assert [re.search("venv|pip", step) is not None for step in building] == [True] * 3
    assert not any("pip" in step for step in using)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    here = " && ".join(using).replace(".venv/bin", str(Path(sys.executable).parent))
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", here], cwd=ROOT, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "nothing differs"
    assert done.stderr == ""
    assert [path.parent.name for path in tmp_path.glob("*/restored")] == [path.name for path in tmp_path.iterdir()]


def test_what_is_installed_has_the_extras_that_it_names():
    extras = set(
        re.findall(r"^(\w+) = \[", read(ROOT / "pyproject.toml").split("[dependency-groups]")[0], re.MULTILINE)
    )
    commands = [block for block in BLOCKS if is_installation(block)]
    assert commands
    for block in [*commands, *(block for block in read_blocks(README) if block.heading in BUILDING)]:
        for named in re.findall(r"(?:colony-memory|\.)\[([\w,]+)\]", block.text):
            assert set(named.split(",")) <= extras, block
    for block in commands:
        for line in block.text.splitlines():
            command = line.partition("#")[0].strip()
            assert re.fullmatch(r"pip install (-U )?(colony-memory|'colony-memory\[[\w,]+\]')", command), block


@pytest.mark.parametrize("name", DOCTESTED)
def test_doctests(name):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.attempted > 0
    assert outcome.failed == 0


@pytest.mark.once
def test_the_vault_of_the_docs_does_what_a_vault_owes(tmp_path):
    snippets = [block for block in read_blocks(ROOT / "docs" / "vaults.md") if block.heading == "Write your own"]
    python = [block.text for block in snippets if block.language == "python"]
    assert len(python) == 2
    test = tmp_path / "test_it.py"
    test.write_text("\n".join(["from colony_memory import ColonyMemory", *python]), encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:cov", str(test)],
        cwd=tmp_path,
        # What the outer run was told to add, such as coverage, is not for this one.
        env={name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert re.search(r"\d\d passed", done.stdout), done.stdout


# Names


def test_every_error_is_in_the_errors_page_with_what_to_do():
    text = read(ROOT / "docs" / "errors.md")
    kinds = (exceptions.ColonyMemoryError, exceptions.ColonyMemoryWarning)
    names = [name for name, value in vars(exceptions).items() if isinstance(value, type) and issubclass(value, kinds)]
    assert len(names) > 14
    for name in names:
        assert f"`{name}`" in text, name
        if name != "ColonyMemoryWarning":
            assert re.search(rf"^\| `{name}` \|[^|]+\|[^|]+\|$", text, re.MULTILINE), name


def test_options_and_exit_codes_are_those_of_the_command(capsys):
    pytest.importorskip("click")
    from colony_memory.__main__ import main

    def help_of(*verb):
        assert main([*verb, "--help"]) == 0
        return capsys.readouterr().out

    told = help_of()
    verbs = re.findall(r"^  (\w+)  ", told.partition("Save and restore:")[2], re.MULTILINE)
    helps = {verb: help_of(verb) for verb in verbs}
    page, errors = (read(ROOT / "docs" / name) for name in ("command-line.md", "errors.md"))
    for verb in verbs:
        assert re.search(rf"`{verb}\b", page), verb
    options = set(re.findall(r"(?<![\w-])(--[a-z][a-z-]*)", "".join(helps.values()) + told))
    for document in DOCUMENTS:
        for verb, rest in re.findall(r"colony-memory (backup|restore|list|status)\b([^`|\n]*)", read(document)):
            for option in re.findall(r"(?<![\w-])(--[a-z][a-z-]*)", rest.partition("&&")[0]):
                assert option in helps[verb], f"{document.name}: {verb} {option}"
        for option in re.findall(r"`(--[a-z][a-z-]*)[^`]*`", read(document)):
            assert option in options, f"{document.name}: {option}"
    for code in re.findall(
        r"\b(\d) [a-z]", " ".join(told[told.index("Exit codes:") :].split("Environment")[0].split())
    ):
        assert re.search(rf"^\| {code} \|", errors, re.MULTILINE), code


# Links and versions


def anchors_of(page):
    heads = re.findall(r"^#+ +(.*?) *$", without_fences(read(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", without_fences(read(page))):
        if re.match(r"https?://", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), link
        assert not anchor or anchor in anchors_of(target), link


def test_the_version_is_in_the_changelog_and_nowhere_else():
    assert re.search(rf"^## {re.escape(colony_memory.__version__)} - \d{{4}}-\d\d-\d\d$", read(CHANGELOG), re.MULTILINE)
    assert [page.name for page in PAGES if colony_memory.__version__ in read(page)] == []


def test_no_page_leads_to_a_machine_or_an_index():
    for page in DOCUMENTS:
        found = re.search(r"pypi\.org|pip install -i|pythonhosted|/work/|/root/|/tmp/", read(page), re.IGNORECASE)
        assert not found, page.name


# The site


def test_the_menu_has_every_page():
    menu = re.findall(r"^ +- [^:\n]+: ([\w-]+\.md)$", read(ROOT / "mkdocs.yml").split("\nnav:")[1], re.MULTILINE)
    menu += re.findall(r"^  - [^:\n]+: ([\w-]+\.md)$", read(ROOT / "mkdocs.yml").split("\nnav:")[1], re.MULTILINE)
    added = {"snapshot-format.md", "changelog.md", "skill.md", "contributing.md", "security.md"}
    added |= {"reference-api.md", "reference-commands.md", "reference-secrets.md"}
    assert set(menu) == {page.name for page in (ROOT / "docs").glob("*.md")} | added


@pytest.mark.once
def test_the_site_builds_and_loads_nothing_from_elsewhere(tmp_path):
    pytest.importorskip("mkdocs")
    site = tmp_path / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-q", "--strict", "--site-dir", str(site)],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    pages = sorted(site.glob("*.html"))
    assert len(pages) > 12
    for page in pages:
        for tag in re.findall(r"<(?:script|img|iframe|link)\b[^>]*>", read(page)):
            assert not re.search(r"(?:src|href)=.?(?:https?:)?//", tag), f"{page.name}: {tag}"


def test_the_benchmarks_need_nothing_that_is_installed():
    # Without the packages of this environment, and without the package itself.
    done = subprocess.run(
        [sys.executable, "-E", "-s", "-S", str(ROOT / "benchmarks" / "run.py"), "--help"],
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    for group in ("folders", "startup", "watch", "calls"):
        assert group in done.stdout
    assert "against other tools" in done.stdout
