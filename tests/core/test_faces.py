"""The two faces of the client: the same verbs with the same arguments, which the engine gets from both alike."""

import asyncio
import inspect
import pickle
from types import SimpleNamespace

import pytest

from colony_memory import AsyncColonyMemory, ColonyMemory, open_vault
from colony_memory.client._face import Awaiting, Blocking

FACES = (ColonyMemory, AsyncColonyMemory)
#: What has to be another type in the one than in the other.
DIFFER = {"backend", "collect", "destination"}


def public(kind):
    return {name: value for name, value in inspect.getmembers(kind) if not name.startswith("_")}


def run(done):
    if inspect.iscoroutine(done):
        asyncio.run(done)


VERBS = sorted(name for name, value in public(AsyncColonyMemory).items() if inspect.iscoroutinefunction(value))
VERBS.remove("aclose")  # there is nothing to close in the other


def test_both_have_the_same_verbs():
    assert set(public(AsyncColonyMemory)) - set(public(ColonyMemory)) == {"aclose"}
    assert set(public(ColonyMemory)) <= set(public(AsyncColonyMemory))
    assert {"backup", "restore", "prune", "copy_to"} < set(VERBS)
    assert not any(inspect.iscoroutinefunction(getattr(ColonyMemory, name)) for name in VERBS)


@pytest.mark.parametrize("name", ["__init__", "autobackup", "to_progenly_export", *VERBS])
def test_a_verb_has_the_same_arguments_in_both(name):
    one, other = (inspect.signature(getattr(kind, name)).parameters for kind in FACES)
    assert list(one) == list(other)
    for theirs, ours in zip(one.values(), other.values(), strict=True):
        assert (theirs.kind, theirs.default) == (ours.kind, ours.default)
        assert theirs.annotation == ours.annotation or theirs.name in DIFFER


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_says_the_same_of_what_it_gives(name):
    one, other = (inspect.signature(getattr(kind, name)).return_annotation for kind in FACES)
    assert one == other
    assert getattr(AsyncColonyMemory, name).__doc__ == f"See :meth:`ColonyMemory.{name}`."
    assert getattr(ColonyMemory, name).__doc__


@pytest.mark.parametrize("kind", FACES)
def test_an_error_of_python_names_the_face(kind):
    memory = kind(backend=open_vault("memory:"))
    for name in VERBS:
        assert pickle.loads(pickle.dumps(getattr(kind, name))) is getattr(kind, name)
        with pytest.raises(TypeError, match=rf"^{kind.__name__}\.{name}\(\) .*'lable'"):
            run(getattr(memory, name)(lable="default"))


def test_what_somebody_derives_keeps_its_own_names():
    class Mine(ColonyMemory):
        def backup(self, documents, **options):
            return super().backup(documents, **options)

    assert Mine.backup.__module__ == __name__
    assert Mine.backup.__qualname__.endswith("Mine.backup")
    memory = Mine(backend=open_vault("memory:"))
    memory.backup({"a.md": "text"})
    assert memory.restore() == {"a.md": "text"}


@pytest.mark.parametrize("name", VERBS)
def test_the_engine_gets_every_argument_from_both(name, monkeypatch):
    asked = []

    def note(self, verb, *arguments, **options):
        asked.append((verb, arguments, options))
        return SimpleNamespace(changes={})

    async def note_later(self, verb, *arguments, **options):
        return note(self, verb, *arguments, **options)

    monkeypatch.setattr(Blocking, "_run", note)
    monkeypatch.setattr(Awaiting, "_run", note_later)
    memories = [kind(backend=open_vault("memory:")) for kind in FACES]
    for destination in memories:
        destination._session = "there"
    # What is looked at or made into something else on the way has to be of its kind.
    special = {"keep": 3, "retention": None, "format": 1}
    names = [each for each in inspect.signature(getattr(ColonyMemory, name)).parameters if each != "self"]
    given = {each: special.get(each, f"the {each}") for each in names}
    for memory in memories:
        options = {**given, **({"destination": memory} if "destination" in given else {})}
        done = getattr(memory, name)(**options)
        run(done)
    one, other = asked
    assert one == other
    handed = [*one[1], *one[2].values()]
    assert all(f"the {each}" in handed for each in names if each not in {*special, "destination"})
    assert ("there" in handed) == ("destination" in given)
    assert any(getattr(each, "keep_last", None) == 3 for each in handed) == ("keep" in given)
    assert ("colony-memory/1" in handed) == ("format" in given)
