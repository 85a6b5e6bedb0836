"""Make the vectors of the catalogue, in ``pages``: ``python tests/vectors/make_pages.py`` writes what is missing.

They are for a reader that pins, and their pointer names an older snapshot than there are, as another writer's in a
conflict leaves it. That the newer ones are listed shows that the pointer was not put back, so that the answer tells
whether the pages with their rows were read.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from colony_memory._format import catalog
from colony_memory._format.names import latest_filename, manifest_filename, pack_filename, page_filename
from colony_memory._format.payload import pack, sha256
from colony_memory._format.pointer import Pointer, write_pointer
from colony_memory._format.rows import Entry
from colony_memory.signing import Ed25519Signer, sign_manifest
from colony_memory.snapshot import BuiltSnapshot, build

PLACE = Path(__file__).parent / "pages"
LABEL = "default"
SIGNER = Ed25519Signer(bytes(range(32)))
STAMP = "2026-01-01T00:00:00Z"
STREAM = "0123456789abcdef"


def history() -> list[BuiltSnapshot]:
    """Five snapshots, each of which names the one before."""
    out: list[BuiltSnapshot] = []
    for n in range(5):
        before = {"snapshot_id": out[-1].info.snapshot_id, "manifest_sha256": out[-1].manifest_sha256} if out else None
        out.append(
            build(
                {"MEMORY.md": f"state {n}"},
                label=LABEL,
                snapshot_id=f"2026010{n + 1}T000000000000Z-00000{n}",
                created_at=STAMP,
                signer=SIGNER,
                previous=before,
                stream=STREAM,
            )
        )
    return out


def entry(built: BuiltSnapshot, **changes: Any) -> Entry:
    """The row of a snapshot."""
    return Entry(built.info, **{"manifest_sha256": built.manifest_sha256, **changes})


def page(*entries: Entry) -> str:
    """A page of these rows, in this order."""
    ((made, _),) = catalog._write_pages(entries) if entries else [(_empty_page(), ())]
    return made.text


def _empty_page() -> catalog._Page:
    plain = b'{"format":"colony-memory/catalog/1","names":[],"snapshots":[]}'
    return catalog._Page(f"{len(plain)}:8:{pack([plain]).blob}", len(plain), 8)


def vault(
    shown: list[BuiltSnapshot],
    named: int,
    pages: Any,
    *,
    signed: bool = True,
    older: Any = None,
    beside: dict[str, str] | None = None,
) -> dict[str, str]:
    """The files of these snapshots, and a pointer with this catalogue, which goes on in the page files ``beside``."""
    files = {name: text for built in shown for name, text in built.files.items()}
    snapshot_id = shown[named].info.snapshot_id
    raw = json.loads(write_pointer(Pointer(LABEL, snapshot_id, STAMP, 7, STREAM)))
    raw["catalog"] = pages
    if older is not None:
        raw["older"] = older
    if signed:
        raw["signature"] = sign_manifest(raw, SIGNER)
    assert raw["manifest_file"] == manifest_filename(LABEL, snapshot_id)
    return {**files, **(beside or {}), latest_filename(LABEL): json.dumps(raw)}


FILES = [page_filename(LABEL, "20260106T000000000000Z-abcdef", n) for n in range(2)]


def file_of(*pages: str, **changes: Any) -> str:
    """A page file."""
    return json.dumps({"format": "colony-memory/pages/1", "label": LABEL, "pages": list(pages), **changes})


def told(text: str, number: int, newest: BuiltSnapshot, name: str = FILES[0], **changes: Any) -> dict[str, Any]:
    """What a pointer says of a page file."""
    digest = sha256(text.encode("ascii"))
    return {"file": name, "sha256": digest, "newest": newest.info.snapshot_id, "pages": number, **changes}


def says(text: str, *, size: int = 0, values: int = 0) -> str:
    """A page that says more bytes or values than it has."""
    was, marks, blob = text.split(":")
    return f"{int(was) + size}:{int(marks) + values}:{blob}"


def vectors() -> dict[str, tuple[str, dict[str, str], str | None]]:
    """Each vector by name: its comment, the vault, and the text that it gives; None where it is not trusted."""
    built = history()
    rows = [entry(each) for each in built]
    newest, middle, oldest = page(rows[4]), page(rows[3], rows[2]), page(rows[1], rows[0])
    lie = page(entry(built[1], manifest_sha256=built[0].manifest_sha256), rows[0])
    whole = [newest, middle, oldest]
    both, second, third = file_of(middle, oldest), file_of(middle), file_of(oldest)
    named = [told(second, 1, built[3]), told(third, 1, built[1], FILES[1])]

    def in_file(comment: str, text: str = both, gives: str | None = None, **changes: Any) -> Any:
        older = [told(text, 2, built[3], **changes)]
        return comment, vault(built, 1, [newest], older=older, beside={FILES[0]: text}), gives

    return {
        "file": in_file("the oldest rows are in a page file", gives="state 1"),
        "file_two": (
            "the oldest rows are in two page files",
            vault(built, 1, [newest], older=named, beside={FILES[0]: second, FILES[1]: third}),
            "state 1",
        ),
        "file_not_needed": (
            "a page file of older rows is not there",
            vault(built, 1, [newest], older=named, beside={FILES[0]: second}),
            "state 1",
        ),
        "file_missing": ("a page file is not there", vault(built, 1, [newest], older=named), None),
        "file_digest": in_file("a page file has another digest", sha256="sha256:" + 64 * "0"),
        "file_pages_differ": in_file("a page file has another number of pages", pages=3),
        "file_of_another": in_file("a page file of another label", file_of(middle, oldest, label="other")),
        "file_format": in_file("another format", file_of(middle, oldest, format="colony-memory/pages/2")),
        "file_page_lies": in_file("a page in a page file is none", file_of("x", oldest)),
        "file_out_of_order": in_file("pages in a page file are not in order", file_of(oldest, middle)),
        "file_name": (
            "what is named is the file of a pack",
            vault(
                built,
                1,
                [newest],
                older=[told(both, 2, built[3], pack_filename(LABEL, built[0].info.snapshot_id, 0))],
                beside={pack_filename(LABEL, built[0].info.snapshot_id, 0): both},
            ),
            None,
        ),
        "file_twice": (
            "a page file is named twice",
            vault(built, 1, [newest], older=[named[1], named[1], named[0]], beside={FILES[0]: second, FILES[1]: third}),
            None,
        ),
        "older_no_list": ("older is an object", vault(built, 1, [newest], older={}, beside={FILES[0]: both}), None),
        "several": ("rows in three pages", vault(built, 1, whole), "state 1"),
        "newest": ("a row in the first of three pages", vault(built, 4, whole), "state 4"),
        "row_removed": (
            "a row was taken out of an old page, and its files are gone",
            vault([*built[:2], *built[3:]], 1, [newest, page(rows[3]), oldest]),
            "state 1",
        ),
        "row_removed_and_there": (
            "a row was taken out of an old page, and its files were put back",
            vault(built, 1, [newest, page(rows[2]), oldest]),
            None,
        ),
        "digest_lies": ("a row in an old page has another digest", vault(built, 1, [newest, middle, lie]), None),
        "size_lies": ("a page says a byte too many", vault(built, 1, [newest, says(middle, size=1), oldest]), None),
        "values_lie": ("a page says a value too many", vault(built, 1, [newest, says(middle, values=1), oldest]), None),
        "size_sum": ("pages of too many bytes", vault(built, 1, [newest, says(middle, size=2**24)]), None),
        "values_sum": ("pages of too many values", vault(built, 1, [newest, says(middle, values=500_000)]), None),
        "out_of_order": ("a page is newer than the one before it", vault(built, 1, [middle, newest, oldest]), None),
        "rows_out_of_order": (
            "rows of one page are not in order",
            vault(built, 1, [newest, page(rows[2], rows[3]), oldest]),
            None,
        ),
        "row_twice": ("a row is in two pages", vault(built, 1, [newest, page(rows[4], *rows[3:1:-1]), oldest]), None),
        "page_twice": ("a page is there twice", vault(built, 1, [newest, newest, middle, oldest]), None),
        "page_without_rows": ("a page without rows", vault(built, 1, [newest, page(), middle, oldest]), None),
        "page_is_no_text": ("a page that is a number", vault(built, 1, [newest, 7, middle, oldest]), None),
        "page_is_no_gzip": (
            "a page that is no gzip",
            vault(built, 1, [newest, ":".join([*middle.split(":")[:2], "AAAA"]), oldest]),
            None,
        ),
        "not_needed": ("a page of older rows is damaged", vault(built, 1, [newest, middle, "x"]), "state 1"),
        "unsigned_lies": (
            "a catalogue that lies, where nobody is pinned",
            vault(built, 1, [newest, lie, middle], signed=False),
            "state 1",
        ),
    }  # fmt: skip


def main() -> None:
    """Write what is not there."""
    PLACE.mkdir(exist_ok=True)
    for name, (comment, files, text) in vectors().items():
        path = PLACE / f"{name}.json"
        if path.exists():
            continue
        trusted = None if name.startswith("unsigned") else [SIGNER.did_key]
        vector = {
            "name": name,
            "comment": comment,
            "made_by": "make_pages.py",
            "files": files,
            "request": {"label": LABEL, "snapshot_id": None, "trusted_issuers": trusted},
            "expect": "untrusted" if text is None else "ok",
        }
        if text is not None:
            vector["documents"] = {"MEMORY.md": text}
        path.write_text(json.dumps(vector, indent=1) + "\n", encoding="ascii")
        print(path.name)


if __name__ == "__main__":
    main()
