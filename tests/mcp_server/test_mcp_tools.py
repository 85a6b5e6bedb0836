"""The tools, called by the official client over both wires."""

import json

import pytest
from mcp_calls import ERAS, Desk, desk

from colony_memory import Retention

__all__ = ["desk"]

LOOKING = ["list", "show", "verify", "status", "diff"]


@pytest.mark.parametrize("era", ERAS)
def test_every_tool_says_what_it_does_to_the_world_and_what_it_answers(tmp_path, era):
    desk = Desk(tmp_path, allow_restore=True)
    desk.era = era
    tools = {each.name: each for each in desk.run(lambda client: client.list_tools()).tools}
    assert list(tools) == ["backup", *LOOKING, "restore"]
    for name, tool in tools.items():
        hints = tool.annotations
        assert hints.title
        assert tool.title == hints.title
        assert tool.description
        assert hints.read_only_hint is (name in LOOKING)
        assert hints.destructive_hint is (name == "restore")
        assert (hints.idempotent_hint, hints.open_world_hint) == (True, False)
        assert tool.input_schema["additionalProperties"] is False
        assert tool.output_schema["properties"]["caution"]
        for argument in tool.input_schema["properties"].values():
            assert "path" not in json.dumps(argument).lower()


@pytest.mark.parametrize("rule", [{"prune_keep": 1}, {"retention": Retention(keep_last=1)}])
def test_a_backup_that_removes_is_called_destructive(tmp_path, rule):
    desk = Desk(tmp_path, **rule)
    (backup,) = [each for each in desk.run(lambda client: client.list_tools()).tools if each.name == "backup"]
    assert backup.annotations.destructive_hint is True
    first = desk.call("backup")["snapshot"]["id"]
    desk.write("MEMORY.md", "three years\n")
    second = desk.call("backup")["snapshot"]["id"]
    assert [each["id"] for each in desk.call("list")["snapshots"]] == [second]
    assert first != second


def test_a_note_and_tags_are_kept(desk):
    desk.call("backup", note="before the move", tags=["move"])
    (shown,) = desk.call("list", tag="move")["snapshots"]
    assert (shown["note"], shown["tags"], shown["latest"]) == ("before the move", ["move"], True)
    assert desk.call("list", tag="other")["snapshots"] == []
    assert "is not a tag" in desk.refused("backup", tags=["no tag!"])


def test_a_list_goes_on_where_it_ended(desk):
    ids = []
    for number in range(3):
        desk.write("MEMORY.md", f"{number}\n")
        ids.append(desk.call("backup")["snapshot"]["id"])
    first = desk.call("list", limit=2)
    assert ([each["id"] for each in first["snapshots"]], first["more"], first["total"]) == (ids[:0:-1], True, 3)
    rest = desk.call("list", limit=2, before=ids[1])
    assert ([each["id"] for each in rest["snapshots"]], rest["more"]) == ([ids[0]], False)
    assert "no snapshot has the id" in desk.refused("list", before="2026")


def test_a_snapshot_and_a_file_of_it_are_shown(desk):
    desk.write("notes/b.bin", b"\xff\x00")
    (desk.root / "empty").mkdir()
    desk.call("backup")
    shown = desk.call("show")
    assert [(each["name"], each["kind"]) for each in shown["files"]] == [
        ("MEMORY.md", "text"),
        ("empty/", "folder"),
        ("notes/b.bin", "bytes"),
    ]
    assert (shown["file_count"], shown["next_offset"], shown["damage"]) == (2, None, None)
    assert desk.call("show", file="MEMORY.md")["content"]["text"] == "two years\n"
    binary = desk.call("show", file="notes/b.bin")["content"]
    assert (binary["text"], binary["size"]) == (None, 2)
    assert desk.refused("show", file="MEMORY.txt").endswith("the nearest is 'MEMORY.md'")


def test_a_long_text_comes_in_parts_that_join(desk):
    text = "".join(f"line {number} ü\n" for number in range(5000))
    desk.write("long.md", text)
    desk.call("backup")

    async def work(client):
        parts, offset = [], 0
        while offset is not None:
            found = await client.call_tool("show", {"file": "long.md", "offset": offset})
            content = found.structured_content["content"]
            assert content["size"] == len(text)
            assert len(content["text"]) <= 20_000
            parts.append(content["text"])
            offset = content["next_offset"]
        return parts

    parts = desk.run(work)
    assert len(parts) == 3
    assert "".join(parts) == text
    assert "is past the end" in desk.refused("show", file="long.md", offset=10**9)


def test_what_differs_is_told_and_a_patch_is_cut(desk):
    first = desk.call("backup")["snapshot"]["id"]
    desk.write("MEMORY.md", "two years\nand more\n")
    desk.write("new.md", "line\n" * 10_000)
    found = desk.call("diff", patch=True)
    assert (found["a"], found["b"], found["differs"]) == (first, "folder", True)
    assert (found["added"], found["changed"][0]["name"], found["changed"][0]["lines_added"]) == (
        ["new.md"],
        "MEMORY.md",
        1,
    )
    assert found["patch_cut"] is True
    assert len(found["patch"]) <= 20_000
    one = desk.call("diff", file="MEMORY.md", patch=True)
    assert (one["added"], one["patch_cut"]) == ([], False)
    assert one["patch"].endswith("@@ -1 +1,2 @@\n two years\n+and more\n")
    desk.call("backup")
    assert desk.call("diff")["differs"] is False
    assert desk.call("diff", a="latest~1", b="latest")["added_count"] == 1
    assert desk.call("diff", a=first, b="latest", file="new.md")["added"] == ["new.md"]
    assert "on either side" in desk.refused("diff", file="nothing.md")


def test_damage_is_told_by_each_in_its_way(desk):
    info = desk.call("backup")["snapshot"]["id"]
    (part,) = desk.vault_path.glob("*.k0.json")
    part.write_text(part.read_text().replace('"data":"', '"data":"AAAA'))
    report = desk.call("verify")
    assert (report["good"], report["checked"], report["good_count"]) == (False, 1, 0)
    assert report["snapshots"][0]["parts"] == "bad"
    assert report["problems"]
    status = desk.call("status")
    assert status["state"] != "protected"
    assert status["problems"][0]["mend"] == "call backup"
    assert desk.call("status", quick=True)["state"] == "saved"
    shown = desk.call("show", snapshot=info)
    assert shown["damage"]
    assert shown["file_count"] is None
    assert desk.refused("show", file="MEMORY.md")


def test_nothing_saved_yet_is_said_and_no_fault(desk):
    assert desk.call("list")["snapshots"] == []
    assert desk.call("status")["state"] == "not protected"
    for name in ("show", "verify"):
        assert desk.refused(name) == "nothing is saved yet under label 'default'"


def test_what_could_not_be_saved_is_named(desk):
    (desk.root / "away").symlink_to("/etc/hostname")
    found = desk.call("backup")
    assert found["complete"] is False
    (left,) = found["left_out"]
    assert left.startswith("away: ")
    assert "/etc" not in left


def test_a_warning_of_the_library_is_in_the_answer(desk):
    desk.write("MEMORY.md", "two years\n" * 1000)
    before = desk.call("backup")["snapshot"]["id"]
    desk.write("MEMORY.md", "no\n")
    (warning,) = desk.call("backup")["warnings"]
    assert "less than half" in warning
    assert warning.endswith(f"try: ask the person to restore snapshot {before}")
