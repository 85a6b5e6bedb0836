"""The conformance suite: every obligation of a vault, as a test that the test of a new vault inherits.

::

    class TestMyVault(VaultBackendTests):
        @pytest.fixture
        def vault(self, tmp_path):
            return MyVault(tmp_path)

A failed obligation is an :class:`AssertionError` with a message of its own, so that the suite also speaks outside
pytest: ``VaultBackendTests().test_text_comes_back_exactly(vault)``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from typing import Any

from colony_memory._boundary import unwrap
from colony_memory.vaults import ConditionalUpload, FileLookup, FreeSpace, ManyDeletion, PrefixListing, VaultBackend

SNAPSHOT = "cmem.default.20260101T000000000000Z-abcdef"
TEXTS = {
    "empty": "",
    "a blank": " ",
    "no newline at the end": "a\nb",
    "newlines at the end": "a\n\n\n",
    "CRLF and CR": "a\r\nb\rc\n",
    "other line ends": "a\u2028b\u2029c\u0085d\x0be\x0cf",
    "NUL": "a\x00b\x00",
    "controls": "".join(map(chr, range(1, 32))) + "\x7f",
    "a byte order mark": "\ufeffa",
    "composed": "\u00e9",
    "decomposed": "e\u0301",
    "several scripts": "Grüße, 世界, привет, שלום, नमस्ते",
    "beyond the BMP": "\U0001f9e0 \U0001f3f3\ufe0f\u200d\U0001f308 \U0001d518 \U0010ffff",
    "noncharacters": "\ufffe\uffff\ufffd",
    "JSON": '{"a": "\\u0000\\ud83e", "b": [1e999]}',
    "percent and escapes": "%00 %2F \\n \\x00 &amp; ${HOME} %s {0}",
    "900 kB of ASCII": "0123456789" * 90_000,
    "900 kB of Unicode": "aé世🧠" * 90_000,
}
NAMES = (
    f"{SNAPSHOT}.p0.json",
    f"{SNAPSHOT}.p10.json",
    f"{SNAPSHOT}.manifest.json",
    "cmem.default.latest.json",
    "cmem.a-b_c.latest.json",
    "a b.json",
    "a%20b.json",
    "a%2Fb.json",
    "a+b.json",
    "a#b.json",
    "a&b=c.json",
    "'quoted'.json",
    "mémoire.json",
    "two..dots.json",
    "n" * 195 + ".json",
)


def check(condition: object, message: str) -> None:
    """Fail with this message unless the condition holds."""
    if not condition:
        raise AssertionError(message)


def skip_without(vault: Any, protocol: type) -> None:
    """Skip the test if the vault lacks the optional protocol."""
    if not isinstance(vault, protocol):
        import pytest

        pytest.skip(f"{type(vault).__name__} has no {protocol.__name__}")


def listed_items(reply: Any) -> list[Any]:
    """The entries of a listing in any of its shapes."""
    bare = unwrap(reply)
    items = bare.get("items", bare.get("files")) if isinstance(bare, Mapping) else bare
    check(isinstance(items, list), f"a listing holds a list, not {type(items).__name__}")
    return list(items)


def _listed_names(reply: Any) -> set[str]:
    names = [item.get("filename") if isinstance(item, Mapping) else item for item in listed_items(reply)]
    check(all(isinstance(name, str) for name in names), "a listing has an entry without a filename that is text")
    return {str(name) for name in names}


def _read_text(vault: Any, filename: str) -> Any:
    return unwrap(vault.vault_get_file(filename))["content"]


def _read_etag(vault: Any, filename: str) -> str:
    etag = unwrap(vault.vault_get_file(filename)).get("etag")
    check(isinstance(etag, str) and etag, "a vault with conditional upload gives each file an etag")
    return str(etag)


def check_text(vault: Any, filename: str, expected: str, what: str) -> None:
    """Check that a file has exactly this text; the message names the first difference, not the texts."""
    content = _read_text(vault, filename)
    check(isinstance(content, str), f"{what}: the content is {type(content).__name__}, not text")
    if content != expected:
        at = next(i for i, (a, b) in enumerate(zip_longest(content, expected)) if a != b)
        wrong, right = content[at : at + 20], expected[at : at + 20]
        raise AssertionError(f"{what}: {wrong!r} in place of {right!r} at character {at} of {filename}")


def check_refused(
    what: str, expected: int | type[Exception], call: Callable[..., Any], *arguments: Any, **options: Any
) -> None:
    """Check that a call raises an exception with this ``status``, or of this class."""
    try:
        call(*arguments, **options)
    except Exception as error:
        status = getattr(error, "status", None)
        if not (isinstance(error, expected) if isinstance(expected, type) else status == expected):
            message = f"{what} raised {type(error).__name__} with status {status}, not {expected}"
            raise AssertionError(message) from error
    else:
        raise AssertionError(f"{what} raised nothing; an exception of {expected} was due")


def check_listed(reply: Any, sizes: Mapping[str, int]) -> None:
    """Check that a listing names exactly these files, each once, with these sizes if it gives any."""
    items, names, bare = listed_items(reply), _listed_names(reply), unwrap(reply)
    envelope = bare if isinstance(bare, Mapping) else {}
    total = envelope.get("total")
    cut = envelope.get("has_more") or envelope.get("next_cursor") or (isinstance(total, int) and total > len(items))
    check(len(items) == len(names), "a file is listed twice")
    check(names <= set(sizes), f"listed, but not there: {sorted(names - set(sizes))}")
    check(names == set(sizes) or cut, f"there, but not listed: {sorted(set(sizes) - names)}")
    for item in items:
        if isinstance(item, Mapping) and item.get("content_size") is not None:
            name, size = item["filename"], item["content_size"]
            check(size == sizes[name], f"{name} is listed with {size} bytes, not {sizes[name]}")


def check_state(vault: Any, *, files: int, size: int) -> None:
    """Check that the status is four whole numbers that fit the stored files."""
    state = unwrap(vault.vault_status())
    for key in ("quota_bytes", "used_bytes", "available_bytes", "file_count"):
        value = state.get(key)
        check(type(value) is int and value >= 0, f"{key} is {value!r}, not a whole number from 0")
    check(state["file_count"] == files, f"file_count is {state['file_count']}, not {files}")
    check(state["used_bytes"] >= size, f"used_bytes is {state['used_bytes']}, and {size} bytes are stored")
    check(state["available_bytes"] <= state["quota_bytes"], "more is available than the quota")


def run_in_threads(number: int, work: Callable[[int], None], *, refused: int | None = None) -> list[int]:
    """Run ``work(0)`` to ``work(number - 1)`` at once, and return those not ``refused``; other errors are raised."""
    start = threading.Barrier(number)

    def run(index: int) -> None:
        start.wait()
        work(index)

    with ThreadPoolExecutor(number) as pool:
        errors = [future.exception() for future in [pool.submit(run, index) for index in range(number)]]
    for error in errors:
        if error is not None and (refused is None or getattr(error, "status", None) != refused):
            raise error
    return [index for index, error in enumerate(errors) if error is None]


class VaultBackendTests:
    """The duties of every vault; see :mod:`colony_memory.vaults`. A subclass gives the fixture ``vault``.

    The fixture returns a new, empty vault with room for 4 MB, files of 1 MB and 300 uploads and deletes. Tests of
    optional methods are skipped if the vault lacks them.
    """

    #: Threads in the tests of concurrent calls.
    threads = 6

    def test_has_the_five_methods(self, vault: Any) -> None:
        """It is a :class:`colony_memory.vaults.VaultBackend`."""
        check(isinstance(vault, VaultBackend), f"{type(vault).__name__} lacks one of the five methods")

    def test_text_comes_back_exactly(self, vault: Any) -> None:
        """No character of any text changes."""
        for number, text in enumerate(TEXTS.values()):
            vault.vault_upload_file(f"text{number}.md", text)
        for number, (what, text) in enumerate(TEXTS.items()):
            check_text(vault, f"text{number}.md", text, what)

    def test_text_that_utf8_cannot_encode_is_exact_or_refused(self, vault: Any) -> None:
        """A lone surrogate is refused as an error, leaving the old file, or comes back as it is."""
        vault.vault_upload_file("surrogate.md", "old")
        expected = "\ud800"
        try:
            vault.vault_upload_file("surrogate.md", expected)
        except Exception:  # noqa: BLE001 - any exception is a refusal
            expected = "old"
        check_text(vault, "surrogate.md", expected, "a lone surrogate")

    def test_upload_tells_the_size(self, vault: Any) -> None:
        """A reply that has ``content_size`` gives the bytes in UTF-8; one with ``filename`` gives the name."""
        reply = unwrap(vault.vault_upload_file("size.md", "é世🧠"))
        check(isinstance(reply, Mapping), f"an upload is answered with a mapping, not {type(reply).__name__}")
        check(reply.get("content_size", 9) == 9, f"content_size is {reply.get('content_size')}, not 9")
        check(reply.get("filename", "size.md") == "size.md", f"filename is {reply.get('filename')!r}")

    def test_replace_is_whole(self, vault: Any) -> None:
        """A shorter text leaves nothing of a longer one, and the file is still one file."""
        for text in ("long " * 1000, "short", "", "long again " * 100):
            vault.vault_upload_file("replaced.md", text)
            check_text(vault, "replaced.md", text, "the last upload")
        check_listed(vault.vault_list_files(), {"replaced.md": len("long again " * 100)})

    def test_missing_file_is_a_404(self, vault: Any) -> None:
        """Reading or deleting a missing file raises an exception with ``status`` 404."""
        vault.vault_upload_file("there.md", "x")
        check_refused("reading a missing file", 404, vault.vault_get_file, "missing.md")
        check_refused("deleting a missing file", 404, vault.vault_delete_file, "missing.md")
        check_text(vault, "there.md", "x", "the other file")

    def test_names_are_compared_exactly(self, vault: Any) -> None:
        """A name that differs in case, a blank, an ending or composition names another file."""
        vault.vault_upload_file("cmem.é.json", "x")
        for other in ("cmem.É.json", "CMEM.é.json", "cmem.é.json.json", " cmem.é.json", "cmem.e\u0301.json"):
            check_refused(f"reading {other!r}", 404, vault.vault_get_file, other)

    def test_odd_names(self, vault: Any) -> None:
        """Names of snapshot files, long ones, and ones that are special in addresses or paths."""
        sizes = {name: len(name.encode()) for name in NAMES}
        for name in NAMES:
            vault.vault_upload_file(name, name)
        for name in NAMES:
            check_text(vault, name, name, f"the file {name}")
        check_listed(vault.vault_list_files(), sizes)
        for name in NAMES:
            vault.vault_delete_file(name)
        check_listed(vault.vault_list_files(), {})

    def test_listing_names_every_file(self, vault: Any) -> None:
        """Every file and no other, with its size in bytes and without its content; nothing in an empty vault."""
        check_listed(vault.vault_list_files(), {})
        sizes = {f"file{number:02}.json": 2 * number for number in range(40)}
        for name, size in sizes.items():
            vault.vault_upload_file(name, "é" * (size // 2))
        check_listed(vault.vault_list_files(), sizes)
        check("éé" not in repr(vault.vault_list_files()), "the listing carries the content")

    def test_delete_is_final(self, vault: Any) -> None:
        """A deleted file is gone from reads, deletes and listings; its neighbours stay; its name is free."""
        for name in ("a.md", "ab.md", "b.md"):
            vault.vault_upload_file(name, name)
        vault.vault_delete_file("a.md")
        check_refused("reading a deleted file", 404, vault.vault_get_file, "a.md")
        check_refused("deleting twice", 404, vault.vault_delete_file, "a.md")
        check_listed(vault.vault_list_files(), {"ab.md": 5, "b.md": 4})
        check_text(vault, "ab.md", "ab.md", "a neighbour of a deleted file")
        vault.vault_upload_file("a.md", "new")
        check_text(vault, "a.md", "new", "a file under a freed name")

    def test_status(self, vault: Any) -> None:
        """Four whole numbers that are not negative and follow the stored files."""
        check_state(vault, files=0, size=0)
        vault.vault_upload_file("a.md", "é" * 1000)
        vault.vault_upload_file("b.md", "x")
        check_state(vault, files=2, size=2001)
        vault.vault_upload_file("a.md", "x")
        vault.vault_delete_file("b.md")
        check_state(vault, files=1, size=1)

    def test_concurrent_calls(self, vault: Any) -> None:
        """Several threads write, read, list and delete files of their own, and none disturbs another."""

        def work(number: int) -> None:
            for turn in range(4):
                name, text = f"thread{number}.{turn}.json", f"{number} {turn} " * 200
                vault.vault_upload_file(name, text)
                check_text(vault, name, text, "a file that no other thread touches")
                check(name in _listed_names(vault.vault_list_files()), f"{name} was uploaded and is not listed")
            vault.vault_delete_file(f"thread{number}.0.json")

        run_in_threads(self.threads, work)
        remaining = {f"thread{number}.{turn}.json" for number in range(self.threads) for turn in range(1, 4)}
        check(_listed_names(vault.vault_list_files()) == remaining, "concurrent calls lost or left files")

    def test_concurrent_writers_leave_one_text_whole(self, vault: Any) -> None:
        """With several writers to one name, readers then and later get one of the texts, never a mixture."""
        texts = {str(number) * (20_000 + 7_000 * number) for number in range(self.threads)}
        vault.vault_upload_file("contested.md", min(texts))

        def work(number: int) -> None:
            for _ in range(4):
                if number % 2:
                    vault.vault_upload_file("contested.md", str(number) * (20_000 + 7_000 * number))
                content = unwrap(vault.vault_get_file("contested.md"))["content"]
                check(content in texts, f"a reader got {len(content)} characters that nobody wrote")

        run_in_threads(self.threads, work)
        check_listed(vault.vault_list_files(), {"contested.md": len(_read_text(vault, "contested.md"))})

    def test_conditional_upload_on_the_etag(self, vault: Any) -> None:
        """``if_match`` writes over the file that was read, and over no other."""
        skip_without(vault, ConditionalUpload)
        vault.vault_upload_file("pointer.json", "one")
        first = _read_etag(vault, "pointer.json")
        vault.vault_upload_file_if("pointer.json", "two", if_match=first)
        check_text(vault, "pointer.json", "two", "a conditional upload that fits")
        check(_read_etag(vault, "pointer.json") != first, "the etag did not change with the text")
        check_refused("a stale if_match", 412, vault.vault_upload_file_if, "pointer.json", "three", if_match=first)
        check_text(vault, "pointer.json", "two", "the file after a refused upload")
        check_refused("if_match on no file", 412, vault.vault_upload_file_if, "absent.json", "x", if_match=first)
        check(_listed_names(vault.vault_list_files()) == {"pointer.json"}, "a refused upload made a file")

    def test_conditional_upload_on_absence(self, vault: Any) -> None:
        """``if_none_match="*"`` creates a file and never replaces one."""
        skip_without(vault, ConditionalUpload)
        vault.vault_upload_file_if("new.json", "one", if_none_match="*")
        check_text(vault, "new.json", "one", "an upload of a file that was not there")
        check_refused("creating what is there", 412, vault.vault_upload_file_if, "new.json", "two", if_none_match="*")
        check_text(vault, "new.json", "one", "the file after a refused upload")
        vault.vault_delete_file("new.json")
        vault.vault_upload_file_if("new.json", "three", if_none_match="*")
        check_text(vault, "new.json", "three", "an upload after a delete")

    def test_conditional_upload_has_one_winner(self, vault: Any) -> None:
        """Of several writers with the same condition exactly one writes; the others get a 412."""
        skip_without(vault, ConditionalUpload)
        for turn in range(4):
            condition: dict[str, str] = {"if_none_match": "*"}
            if turn:
                condition = {"if_match": _read_etag(vault, "race.json")}

            def work(number: int, turn: int = turn, condition: dict[str, str] = condition) -> None:
                vault.vault_upload_file_if("race.json", f"{turn} {number}", **condition)

            winners = run_in_threads(self.threads, work, refused=412)
            check(len(winners) == 1, f"{len(winners)} of {self.threads} writers won with the same {condition}")
            check_text(vault, "race.json", f"{turn} {winners[0]}", "the winner's text")

    def test_prefix_listing(self, vault: Any) -> None:
        """A prefix is literal, and may be empty or a whole name; the entries are those of the full listing."""
        skip_without(vault, PrefixListing)
        sizes = {"cmem.a.1.json": 1, "cmem.a.2.json": 2, "cmem.ab.1.json": 3, "cmem_a.1.json": 4, "x.cmem.a.json": 5}
        for name, size in sizes.items():
            vault.vault_upload_file(name, "x" * size)
        patterns = ("cmem.*", "cmem%", "c?em", "[c]", "CMEM.")
        for prefix in ("cmem.a.", "cmem.a", "cmem.", "cmem_a", "cmem.a.1.json", *patterns, ""):
            expected = {name: size for name, size in sizes.items() if name.startswith(prefix)}
            check_listed(vault.vault_list_prefix(prefix), expected)

    def test_lookup_of_files(self, vault: Any) -> None:
        """It lists those of certain files that exist, as the full listing has them, and no others."""
        skip_without(vault, FileLookup)
        sizes = {"cmem.a.1.json": 1, "cmem.a.2.json": 2, "cmem.ab.1.json": 3}
        for name, size in sizes.items():
            vault.vault_upload_file(name, "x" * size)
        for names in ([], ["cmem.a.1.json"], ["cmem.a.1.json", "cmem.ab.1.json"], ["cmem.a.", "cmem.*"]):
            requested = [*names, "cmem.a.3.json"]
            check_listed(vault.vault_look_up_files(requested), {name: sizes[name] for name in names if name in sizes})
        vault.vault_delete_file("cmem.a.1.json")
        check_listed(vault.vault_look_up_files(["cmem.a.1.json", "cmem.a.2.json"]), {"cmem.a.2.json": 2})

    def test_deletion_of_many(self, vault: Any) -> None:
        """The files are gone, and no others."""
        skip_without(vault, ManyDeletion)
        names = [f"cmem.a.{number}.json" for number in range(4)]
        for name in names:
            vault.vault_upload_file(name, "x")
        vault.vault_delete_files(names[:3])
        check_listed(vault.vault_list_files(), {names[3]: 1})

    def test_free_space(self, vault: Any) -> None:
        """It is a number of bytes, or None if only the status tells."""
        skip_without(vault, FreeSpace)
        free = vault.vault_free_bytes()
        check(free is None or (type(free) is int and free >= 0), f"free space is a count of bytes, not {free!r}")
