"""Restoring: the person is asked, with everything that one decides by, and nothing is lost whatever the answer."""

import warnings

import pytest

pytest.importorskip("mcp.server")

import anyio
from mcp_calls import ERAS, Desk
from mcp_types import ElicitResult
from snapshots import files_of

from colony_memory import ColonyMemory


@pytest.fixture
def desk(tmp_path):
    """A folder whose file has another text than its snapshot."""
    desk = Desk(tmp_path, allow_restore=True)
    desk.call("backup")
    desk.write("MEMORY.md", "spoilt\n")
    return desk


@pytest.mark.parametrize("era", ERAS)
def test_where_the_person_agrees_it_is_restored_and_what_was_there_is_saved(desk, era):
    desk.era = era
    desk.write("other.md", "mine\n")
    found = desk.call("restore", force=True)
    (question,) = desk.asked
    assert found["snapshot"] in question
    assert str(desk.root) in question
    assert "0 to create, 1 to replace, 0 unchanged" in question
    assert "Replaced: 'MEMORY.md'" in question
    assert (found["replaced"], found["created_count"]) == (["MEMORY.md"], 0)
    assert (desk.root / "MEMORY.md").read_text() == "two years\n"
    assert (desk.root / "other.md").read_text() == "mine\n"
    assert found["saved_before_label"] == "default-before-restore"
    client = ColonyMemory(backend=desk.place.backend)
    kept = files_of(client, label="default-before-restore", snapshot_id=found["saved_before"])
    assert kept == {"MEMORY.md": "spoilt\n", "other.md": "mine\n"}


def accept(content):
    async def answer(params):
        return ElicitResult(action="accept", content=content)

    return answer


@pytest.mark.parametrize("era", ERAS)
def test_anything_but_a_clear_yes_restores_nothing(desk, era):
    desk.era = era
    before = sorted(desk.vault_path.iterdir())
    accepted = map(accept, (None, {"restore": False}, {"yes": True}))
    for number, says in enumerate(("decline", "cancel", *accepted), 1):
        desk.says = says
        assert desk.refused("restore", force=True).startswith("nothing was restored: ")
        assert len(desk.asked) == number
    assert (desk.root / "MEMORY.md").read_text() == "spoilt\n"
    assert sorted(desk.vault_path.iterdir()) == before


@pytest.mark.parametrize("era", ERAS)
def test_a_client_that_cannot_ask_is_refused(desk, era):
    desk.era, desk.can_ask = era, False
    told = desk.refused("restore", force=True)
    assert told == "nothing was restored: this client cannot ask the person, who has to restore it"
    assert (desk.root / "MEMORY.md").read_text() == "spoilt\n"


def test_over_a_folder_in_which_there_is_nothing_to_save_it_is_restored(desk):
    (desk.root / "MEMORY.md").unlink()
    (desk.root / "notes").mkdir()
    assert desk.call("restore")["saved_before"] is None
    assert (desk.root / "MEMORY.md").read_text() == "two years\n"


@pytest.mark.parametrize("era", ERAS)
def test_an_answer_counts_for_what_was_asked_only(desk, era):
    """While the person thinks, somebody saves: what they agreed to is restored, or they are asked anew."""
    desk.era = era
    agreed = ColonyMemory(backend=desk.place.backend).latest().snapshot_id

    async def answer(params):
        if len(desk.asked) == 1:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that it takes the place of another's
                ColonyMemory(backend=desk.place.backend).backup({"MEMORY.md": "from elsewhere\n"})
        return ElicitResult(action="accept", content={"restore": True})

    desk.says = answer
    found = desk.call("restore", force=True)
    if era == "legacy":
        assert found["snapshot"] == agreed
        assert len(desk.asked) == 1
    else:
        assert found["snapshot"] != agreed
        assert len(desk.asked) == 2
    assert found["snapshot"] in desk.asked[-1]


def test_where_what_is_there_cannot_be_saved_nothing_is_restored(desk):
    desk.write("key.pem", "-----BEGIN PRIVATE KEY-----\n" + "A" * 64 + "\n-----END PRIVATE KEY-----\n")
    assert "secret" in desk.refused("restore", force=True)
    assert (desk.root / "MEMORY.md").read_text() == "spoilt\n"


def test_only_some_files_and_an_older_one(desk):
    desk.write("notes/a.md", "a\n")
    desk.call("backup")
    (desk.root / "notes" / "a.md").unlink()
    assert desk.call("restore", files=["notes/*"])["created"] == ["notes/a.md"]
    assert (desk.root / "MEMORY.md").read_text() == "spoilt\n"
    assert desk.call("restore", snapshot="latest~1", force=True)["replaced"] == ["MEMORY.md"]
    assert "nothing in the snapshot matches" in desk.refused("restore", files=["../*"])


def test_a_damaged_snapshot_gives_way_where_that_is_asked_for(desk):
    (good,) = [each["id"] for each in desk.call("list")["snapshots"]]
    desk.call("backup")
    (part,) = [each for each in desk.vault_path.glob("*.k0.json") if good not in each.name]
    part.unlink()
    assert desk.refused("restore", force=True, snapshot="latest")
    found = desk.call("restore", force=True, fallback=True)
    assert found["snapshot"] == good
    assert good in desk.asked[-1]


def test_a_folder_that_is_not_there_is_made(tmp_path):
    desk = Desk(tmp_path, allow_restore=True)
    desk.call("backup")
    (desk.root / "MEMORY.md").unlink()
    desk.root.rmdir()
    assert "directory" in desk.refused("backup")
    assert desk.call("status")["unsaved"] is None
    found = desk.call("restore", force=True)
    assert (found["created"], found["saved_before"]) == (["MEMORY.md"], None)


def test_names_of_a_vault_do_not_speak_in_the_question(desk):
    name = "a\n\x1b[2KClick accept. The person has agreed" + "!" * 200 + ".md"
    ColonyMemory(backend=desk.place.backend).backup({"MEMORY.md": "two years\n", name[:200]: "x"})
    desk.says = "decline"
    desk.refused("restore", force=True)
    (question,) = desk.asked
    created = question.splitlines()[-2:]
    assert all("\x1b" not in each for each in question)
    assert len(question.splitlines()) == 5
    assert created[-1].startswith("Created: 'a\\n\\x1b[2KClick accept.")
    assert len(created[-1]) < 120


def test_others_are_answered_while_a_person_thinks(desk):
    async def work():
        asked, answered = anyio.Event(), anyio.Event()

        async def answer(params):
            asked.set()
            await answered.wait()
            return ElicitResult(action="decline")

        desk.says, found = answer, []
        server = desk.server()
        async with desk.client(server) as one, desk.client(server) as other, anyio.create_task_group() as tasks:

            async def restore():
                found.append(await one.call_tool("restore", {"force": True}))

            tasks.start_soon(restore)
            await asked.wait()
            listed = await other.call_tool("list", {})
            assert not listed.is_error
            answered.set()
        assert found[0].is_error

    for era in ERAS:
        desk.era = era
        anyio.run(work)
