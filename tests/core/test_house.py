"""The house has a size, its files import each other in no circle, and it is few floors high."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "colony_memory"
#: Beside the files at the top, what `import colony_memory` and the two lines need.
CORE = ("client", "_engine", "_format")
FILES = {
    ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): file
    for file in PACKAGE.rglob("*.py")
}


def room_of(name):
    """The folder right below the package, or the file."""
    return [*name.split("."), "__init__"][1]


def lines_of(files):
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


@pytest.mark.parametrize(
    ("files", "lines", "count"),
    [
        (FILES.values(), 36_000, 190),
        ([file for name, file in FILES.items() if room_of(name) in CORE or file.parent == PACKAGE], 16_000, 90),
        ([*(PACKAGE.parent / "tests").rglob("*.py")], 50_000, 300),
    ],
    ids=["package", "core", "tests"],
)
def test_it_grows_no_larger(files, lines, count):
    assert lines_of(files) <= lines
    assert len(files) <= count


def imports_of(tree):
    """What a module imports of the package when it runs, within functions too; what only types name is nothing."""
    found = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{each.name}" for each in node.names}
            found |= names & FILES.keys() or {node.module}
        found |= imports_of(node)
    return found & FILES.keys()


IMPORTS = {name: imports_of(ast.parse(file.read_text(encoding="utf-8"))) - {name} for name, file in FILES.items()}


def floor_of(name, below, above=()):
    assert name not in above, f"a circle: {' -> '.join((*above[above.index(name) :], name))}"
    return 1 + max((floor_of(each, below, (*above, name)) for each in below[name]), default=0)


def test_no_file_imports_what_imports_it():
    done = {}

    def visit(name, above=()):
        assert name not in above, f"a circle: {' -> '.join((*above[above.index(name) :], name))}"
        if name not in done:
            done[name] = [visit(each, (*above, name)) for each in sorted(IMPORTS[name])]

    for name in IMPORTS:
        visit(name)
    assert len(done) == len(FILES)


def test_its_folders_have_at_most_ten_floors():
    below = {}
    for name, imported in IMPORTS.items():
        rooms = {room_of(each) for each in imported if "." in each and FILES[each].parent != PACKAGE}
        if FILES[name].parent != PACKAGE:
            below.setdefault(room_of(name), set()).update(rooms - {room_of(name)})
    assert max(floor_of(room, below) for room in below) <= 10
