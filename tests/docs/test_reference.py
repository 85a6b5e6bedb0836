"""The pages that are made from the code: nothing is missing, and what they lead to is there."""

import re
from importlib import import_module

import pytest
from documentation_pages import ROOT, read

import colony_memory

_ANCHOR = re.compile(r"\{#([^}\s]+)\}")


@pytest.fixture(scope="module", autouse=True)
def _scripts_of_the_site():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs"))
        yield


@pytest.fixture(scope="module")
def api():
    return import_module("reference_api").render()


@pytest.fixture(scope="module")
def commands():
    pytest.importorskip("click")
    return import_module("reference_commands").render()


# The names


@pytest.mark.parametrize("module", ["", ".testing", ".capture"])
def test_every_public_name_has_a_heading(api, module):
    names = set(import_module(f"colony_memory{module}").__all__) - {"FORMAT", "__version__"}
    assert [name for name in sorted(names) if f"\n### {name} {{#{name}}}\n" not in api] == []


def test_every_method_has_an_anchor_and_every_argument_a_line(api):
    for kind in (colony_memory.ColonyMemory, colony_memory.AsyncColonyMemory, colony_memory.Ed25519Signer):
        for name in (name for name in dir(kind) if not name.startswith("_")):
            assert f"{{#{kind.__name__}.{name}}}" in api, name
    backup = api.partition("{#ColonyMemory.backup}")[2].partition("\n#### ")[0]
    for argument in ("label", "prune_keep", "retention", "on_conflict", "tags"):
        assert f"\n- `{argument}`: " in backup
    assert "\n- [`QuotaExceeded`](#QuotaExceeded): " in backup
    assert ") -> SnapshotInfo\n" in backup


def test_nothing_private_and_no_markup_of_docstrings_is_left(api):
    prose = re.sub(r"^```.*?^```", "", api, flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r":[a-z]+:`.*|.*``.*|^(?:Args|Raises|Returns|Attributes):.*", prose, re.MULTILINE) == []
    signatures = re.findall(r"^```python\n((?:class|def|async def|@).*?)^```", api, re.MULTILINE | re.DOTALL)
    assert len(signatures) > 100
    assert [each for each in signatures if re.search(r"[:\[|>] ?_[A-Za-z]|<|object at", each)] == []


# The verbs


def verbs():
    from colony_memory.shell.cli.app import VERBS
    from colony_memory.shell.cli.program import verb_of

    return {name: verb_of(name) for name in VERBS}


def test_every_verb_has_a_heading_and_every_option_an_anchor(commands):
    common = commands.partition("{#common}")[2]
    for name, command in verbs().items():
        told = commands.partition(f"\n## {name} {{#{name}}}\n")[2].partition("\n## ")[0]
        assert f"\ncolony-memory {name} [OPTIONS]" in told
        for each in command.params:
            flag = max(each.opts, key=len)
            if each.param_type_name == "option" and f"{{#{name}{flag}}}" not in told:
                assert f"{{#common{flag}}}" in common, f"{name} {flag}"
                assert "[common options](#common)" in told or f"(#common{flag})" in told, f"{name} {flag}"
                assert not each.envvar or f"`{each.envvar}`" in common
            elif each.param_type_name == "option" and each.envvar:
                assert f"Variable: `{each.envvar}`." in told


def test_examples_and_exit_codes_are_on_the_page(commands):
    from colony_memory.shell.cli.app import SETTINGS, VERBS, examples_of

    for name in VERBS:
        for example in examples_of(name):
            assert f"\n{example}\n" in commands
    codes, _, environment = commands.partition("{#exit-codes}")[2].partition("{#environment}")
    assert [f"- `{code}`: " in codes for code in range(6)] == [True] * 6
    assert [name for name in SETTINGS if f"`{name}`" not in environment] == []


# The kinds of secrets


def test_each_kind_of_secret_has_a_row_with_all_that_it_is_found_by():
    from colony_memory.capture._secret_kinds import KINDS

    rows = dict(re.findall(r"^\| ([^|]+) \| (.*) \|$", import_module("reference_secrets").render(), re.MULTILINE))
    assert len(rows) > 170
    for kind in KINDS:
        assert set(re.findall(r"`([^`]+)`", rows[kind.name])) >= {hint.decode() for hint in kind.hints}, kind.name


# Both


@pytest.mark.parametrize("page", ["api", "commands"])
def test_anchors_are_unique_and_links_lead_to_them(request, page):
    text = request.getfixturevalue(page)
    anchors = _ANCHOR.findall(text)
    assert len(anchors) == len(set(anchors)) > 100
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) - set(anchors) == set()
    for link, anchor in re.findall(r"\]\(([\w-]+\.md)(?:#([\w-]+))?\)", text):
        assert (ROOT / "docs" / link).is_file()
        assert not anchor or anchor.replace("-", " ") in read(ROOT / "docs" / link).lower()
