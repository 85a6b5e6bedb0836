# ruff: noqa: INP001, D103 - a script
"""The drawings of "How it works", which are boxes, arrows and words: ``python docs/figures/make.py``."""

from __future__ import annotations

from html import escape
from pathlib import Path

HERE = Path(__file__).parent
_INK, _DIM, _EDGE, _FILL, _MARK, _WARN = "#1c2026", "#565e6b", "#8b93a1", "#f5f6f8", "#0b57a8", "#b3261e"


def svg(width: int, height: int, label: str, *pieces: str) -> str:
    view = f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {view}>'
    arrow = (
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0 8 4 0 8z" fill="{_DIM}"/></marker></defs>'
    )
    # Its own paper: what is drawn looks the same on a light and on a dark page.
    paper = f'<rect width="{width}" height="{height}" rx="8" fill="#fff"/>'
    return "\n".join([head, arrow, paper, *pieces, "</svg>", ""])


def text(
    x: float, y: float, words: str, *, dim: bool = False, bold: bool = False, middle: bool = False, colour: str = ""
) -> str:
    style = f"font:{'600 ' if bold else ''}{12 if dim else 14}px system-ui,sans-serif"
    anchor = ' text-anchor="middle"' if middle else ""
    fill = colour or (_DIM if dim else _INK)
    return f'<text x="{x}" y="{y}"{anchor} fill="{fill}" style="{style}">{escape(words)}</text>'


def box(x: float, y: float, width: float, title: str, *lines: str, colour: str = _EDGE) -> str:
    height = 30 + 18 * len(lines)
    rows = [text(x + width / 2, y + 20, title, bold=True, middle=True)]
    rows += [text(x + width / 2, y + 38 + 18 * n, line, dim=True, middle=True) for n, line in enumerate(lines)]
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{_FILL}" stroke="{colour}"/>'
        + "".join(rows)
    )


def arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{_DIM}" stroke-width="1.5" marker-end="url(#a)"/>'


def vault() -> str:
    return svg(
        760,
        330,
        "What a vault contains: a pointer that names the latest snapshot, manifests, and the files that they need",
        text(20, 30, "The files of one label, default", bold=True),
        box(
            20, 55, 220, "cmem.default.latest.json", "the pointer: names the latest,", "lists all, signed", colour=_MARK
        ),
        box(290, 55, 210, "….ID2.manifest.json", "names, sizes, digest, signature"),
        box(290, 145, 210, "….ID1.manifest.json", "the snapshot before it"),
        box(550, 55, 190, "….ID2.p0.json", "the texts, gzip in base64"),
        box(550, 145, 190, "….ID1.p0.json", "format 1: its own parts"),
        box(290, 235, 210, "….ID0.manifest.json", "format 2"),
        box(550, 225, 190, "….ID0.k0.json", "what changed, on top of", "other packs: shared"),
        arrow(240, 85, 288, 80),
        arrow(500, 80, 548, 80),
        arrow(500, 170, 548, 170),
        arrow(500, 260, 548, 260),
        text(20, 175, "Only the pointer is ever overwritten.", dim=True),
        text(20, 195, "All else is written once, read, and deleted.", dim=True),
        text(20, 215, "Files of other names are never touched.", dim=True),
    )


def writes() -> str:
    steps = (
        ("1  look", "pointer, list"),
        ("2  upload", "parts or pack"),
        ("3  upload", "manifest"),
        ("4  write", "pointer"),
        ("5  delete", "old snapshots"),
    )
    after = (
        "the one before",
        "the one before;",
        "both; restore gives",
        "the new one",
        "the new one",
    )
    more = ("", "leftovers go later", "the one before", "", "")
    pieces = [text(20, 30, "A backup, from left to right, and what is there if it stops", bold=True)]
    for n, (title, line) in enumerate(steps):
        x = 20 + 147 * n
        pieces += [box(x, 50, 125, title, line)]
        if n < 4:
            pieces.append(arrow(x + 125, 74, x + 145, 74))
        pieces += [
            f'<line x1="{x + 135}" y1="105" x2="{x + 135}" y2="122" stroke="{_WARN}" stroke-width="2"/>'
            if n < 4
            else "",
            text(x + 62, 140, after[n], dim=True, middle=True),
            text(x + 62, 158, more[n], dim=True, middle=True),
        ]
    pieces.append(
        text(
            20,
            195,
            "Red: a crash here leaves what stands to the left of it. Nothing that is listed ever lacks a file.",
            dim=True,
        )
    )
    return svg(760, 215, "The order of writes of a backup, and what each crash leaves", *pieces)


def trust() -> str:
    return svg(
        760,
        300,
        "Who believes what: the vault and folders are not trusted, keys and the witness are yours",
        text(20, 30, "Yours", bold=True),
        text(300, 30, "This package", bold=True),
        text(560, 30, "To be proven", bold=True),
        box(20, 50, 200, "key file", "signs what you save", colour=_MARK),
        box(20, 120, 200, "trusted issuers", "whose snapshots you take", colour=_MARK),
        box(20, 190, 200, "witness", "the newest head that was seen", colour=_MARK),
        box(
            290, 100, 190, "judge", "pointer, catalogue, manifests", "and files: do they agree,", "and who signed them?"
        ),
        box(550, 50, 190, "vault", "can delete and read,", "not change unseen"),
        box(550, 135, 190, "folder", "names, links, files:", "never obeyed"),
        box(550, 220, 190, "old clients", "unsigned pointers: hints"),
        arrow(220, 75, 288, 125),
        arrow(220, 145, 288, 145),
        arrow(220, 215, 288, 165),
        arrow(548, 85, 482, 125),
        arrow(548, 165, 482, 150),
        arrow(548, 240, 482, 175),
        text(290, 225, "What does not hold is refused with", dim=True),
        text(290, 243, "what to do, or said in a warning.", dim=True),
    )


if __name__ == "__main__":
    for name, drawing in {"vault": vault(), "writes": writes(), "trust": trust()}.items():
        (HERE / f"{name}.svg").write_text(drawing, encoding="utf-8")
