import copy
import inspect
import pickle
import re

import pytest

from colony_memory import exceptions

SAMPLES = {
    "file": "cmem.x.y.manifest.json",
    "needed": 7,
    "available": 5,
    "theirs": "id-1",
    "snapshot_id": "id-2",
    "deleted": 3,
    "failed": ("cmem.x.y.p0.json",),
    "findings": (),
    "status": 429,
    "code": "RATE_LIMIT",
    "retry_after": 60.0,
}


def drawn():
    """Name, bases and attributes of each error, which callers catch and read: the tree in the module's docstring."""
    out, above = {}, []
    for line in exceptions.__doc__.splitlines():
        found = re.fullmatch(r"    ([│├└─ ]*)([A-Za-z]+)(?:\(([A-Za-z…, ]+)\))?(.*)", line)
        if found is None:
            continue
        stem, name, bases, tail = found.groups()
        del above[len(stem) // 4 :]
        others = [base for base in re.split(", ", bases or "") if base and base != "…"]
        inherited = out[above[-1]][1] if above else ()
        out[name] = ((*above[-1:], *others), tuple(re.findall(r"\.([a-z_]+)", tail)) or inherited)
        above.append(name)
    return out


TREE = drawn()


def defined():
    return {
        name: kind
        for name, kind in vars(exceptions).items()
        if inspect.isclass(kind) and issubclass(kind, BaseException) and kind.__module__ == exceptions.__name__
        if not name.startswith("_")
    }


def make(name):
    attributes = TREE[name][1]
    return getattr(exceptions, name)("what happened", **{key: SAMPLES[key] for key in attributes})


def test_the_tree_is_pinned():
    kinds = defined()
    assert {
        name: tuple(base.__name__ for base in kind.__bases__ if not base.__name__.startswith("_"))
        for name, kind in kinds.items()
        if issubclass(kind, exceptions.ColonyMemoryError)
    } == {name: bases for name, (bases, _) in TREE.items()}
    assert set(kinds) - set(TREE) == {"ColonyMemoryWarning"}
    assert exceptions.ColonyMemoryWarning.__bases__[1:] == (UserWarning,)


@pytest.mark.parametrize("name", TREE)
def test_an_error_carries_its_message_and_attributes(name):
    error = make(name)
    assert str(error) == "what happened"
    assert vars(error) == {"hint": None} | {key: SAMPLES[key] for key in TREE[name][1]}
    assert isinstance(error, exceptions.ColonyMemoryError)
    assert inspect.getdoc(type(error))


@pytest.mark.parametrize("name", TREE)
def test_attributes_are_keyword_only_and_documented(name):
    kind, attributes = getattr(exceptions, name), TREE[name][1]
    if attributes:
        own = next(base for base in kind.__mro__ if "__init__" in vars(base))
        parameters = list(inspect.signature(own.__init__).parameters.values())[2:]
        assert [parameter.name for parameter in parameters] == [*attributes, "hint"]
        assert {parameter.kind for parameter in parameters} == {inspect.Parameter.KEYWORD_ONLY}
        documented = re.findall(r"(?:#: .*\n +self\.|self\.(?=.* #: ))(\w+) = ", inspect.getsource(own))
        assert documented == list(attributes)


def test_a_hint_is_a_call_and_ends_the_message():
    hint = exceptions.Hint("restore", "snapshot_id", "id-1", label="notes")
    error = exceptions.UntrustedSnapshot("it was put back", hint=hint)
    assert (error.message, error.hint) == ("it was put back", hint)
    assert str(error) == "it was put back; try restore(label='notes', snapshot_id='id-1')"
    assert str(exceptions.Hint("open", "signer")) == "ColonyMemory(signer=…)"
    assert str(exceptions.Hint("prune", label="default")) == "prune()"
    assert str(exceptions.ColonyMemoryWarning("x", hint=exceptions.Hint("restore", "fallback", value=True))) == (
        "x; try restore(fallback=True)"
    )
    assert exceptions.ColonyMemoryError().message == ""


@pytest.mark.parametrize("name", TREE)
def test_an_error_survives_copying_and_another_process(name):
    error = make(name)
    error.add = "a note of the caller's own"
    error.hint = exceptions.Hint("verify")
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(other) is type(error)
        assert (str(other), other.args, vars(other)) == (str(error), error.args, vars(error))
