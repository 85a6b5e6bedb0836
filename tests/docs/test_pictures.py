"""The pictures of the documentation show what the commands print."""

import importlib.util
import re
from xml.etree import ElementTree as ET

import pytest

pytest.importorskip("click")
pytest.importorskip("cryptography")

from documentation_pages import ROOT, fits, read

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def pictures():
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "docs" / "pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def printed(pictures):
    with pictures.furnished():
        return {name: pictures.print_on_terminal(arguments) for name, arguments in pictures.PICTURES.items()}


def lines_of(svg):
    return ["".join(text.itertext()) for text in ET.fromstring(svg).iter(f"{SVG}text")]


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_each_picture_is_of_a_verb_and_in_the_page(pictures):
    page = read(ROOT / "docs" / "command-line.md")
    assert {path.stem for path in pictures.IMAGES.glob("*")} == set(pictures.PICTURES)
    for name, arguments in pictures.PICTURES.items():
        assert f"![What colony-memory {' '.join(arguments[:2]) if name == 'restore' else name} prints]" in page
        assert f"(img/{name}.svg)" in page


@pytest.mark.parametrize("name", ["list", "status", "diff", "restore"])
def test_a_picture_shows_what_is_printed(pictures, printed, name):
    """Sizes aside: what gzip makes of the same text differs between builds."""
    command, *shown = lines_of((pictures.IMAGES / f"{name}.svg").read_text(encoding="utf-8"))
    assert command == f"$ colony-memory {' '.join(pictures.PICTURES[name])}"
    shown = [re.sub(r"about [\d,]+ more fit", "about … more fit", line) for line in shown]  # so many as sizes allow
    assert fits("\n".join(shown), re.sub(r"\n+", "\n", plain(printed[name]))), printed[name]
