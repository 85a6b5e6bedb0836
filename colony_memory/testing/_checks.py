"""The checks of the conformance suite: each failure is an :class:`AssertionError` with a message of its own."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def check(condition: object, message: str) -> None:
    """Fail with this message unless the condition holds."""
    if not condition:
        raise AssertionError(message)


def skip_without(vault: Any, protocol: type) -> None:
    """Skip the test where the vault lacks the optional protocol."""
    if not isinstance(vault, protocol):
        import pytest

        pytest.skip(f"{type(vault).__name__} has no {protocol.__name__}")


def unwrap(reply: Any) -> Any:
    return reply["result"] if isinstance(reply, Mapping) and "result" in reply else reply


def listed_items(reply: Any) -> list[Any]:
    """The entries of a listing in any of its shapes."""
    bare = unwrap(reply)
    items = bare.get("items", bare.get("files")) if isinstance(bare, Mapping) else bare
    check(isinstance(items, list), f"a listing holds a list, not {type(items).__name__}")
    return list(items)


def listed_names(reply: Any) -> set[str]:
    return {item["filename"] if isinstance(item, Mapping) else item for item in listed_items(reply)}


def read_text(vault: Any, filename: str) -> Any:
    return unwrap(vault.vault_get_file(filename))["content"]


def read_etag(vault: Any, filename: str) -> str:
    etag = unwrap(vault.vault_get_file(filename)).get("etag")
    check(isinstance(etag, str) and etag, "a vault with conditional upload gives each file an etag")
    return str(etag)


def check_text(vault: Any, filename: str, expected: str, what: str) -> None:
    """The file holds exactly this text; the message names the first difference, not the texts."""
    content = read_text(vault, filename)
    check(isinstance(content, str), f"{what}: the content is {type(content).__name__}, not text")
    if content != expected:
        at = next((i for i, (a, b) in enumerate(zip(content, expected, strict=False)) if a != b), None)
        at = min(len(content), len(expected)) if at is None else at
        wrong, right = content[at : at + 20], expected[at : at + 20]
        raise AssertionError(f"{what}: {wrong!r} in place of {right!r} at character {at} of {filename}")


def check_status(call: Callable[[], Any], status: int, what: str) -> None:
    """The call raises an exception whose ``status`` is this."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - the type is the vault's own, the status is not
        found = getattr(error, "status", None)
        check(found == status, f"{what} raised {type(error).__name__} with status {found}, not {status}")
    else:
        raise AssertionError(f"{what} raised nothing; an exception with status {status} was due")


def check_listed(reply: Any, sizes: Mapping[str, int]) -> None:
    """The listing names exactly these files, each once, with these sizes where it gives any."""
    items, names, bare = listed_items(reply), listed_names(reply), unwrap(reply)
    told = bare if isinstance(bare, Mapping) else {}
    cut = told.get("has_more") or told.get("next_cursor") or told.get("total", 0) > len(items)
    check(len(items) == len(names), "a file is listed twice")
    check(names <= set(sizes), f"listed, but not there: {sorted(names - set(sizes))}")
    check(names == set(sizes) or cut, f"there, but not listed: {sorted(set(sizes) - names)}")
    for item in items:
        if isinstance(item, Mapping) and "content_size" in item:
            name, size = item["filename"], item["content_size"]
            check(size == sizes[name], f"{name} is listed with {size} bytes, not {sizes[name]}")


def check_state(vault: Any, *, files: int, size: int) -> None:
    """Status is four whole numbers that fit what is stored."""
    state = unwrap(vault.vault_status())
    for key in ("quota_bytes", "used_bytes", "available_bytes", "file_count"):
        value = state.get(key)
        check(type(value) is int and value >= 0, f"{key} is {value!r}, not a whole number from 0")
    check(state["file_count"] == files, f"file_count is {state['file_count']}, not {files}")
    check(state["used_bytes"] >= size, f"used_bytes is {state['used_bytes']}, and {size} bytes are stored")
    check(state["available_bytes"] <= state["quota_bytes"], "more is available than the quota")


def run_in_threads(number: int, work: Callable[[int], None]) -> list[BaseException | None]:
    """Run ``work(0)`` to ``work(number - 1)`` at once; what each raised, in that order."""
    outcomes: list[BaseException | None] = [None] * number
    start = threading.Barrier(number)

    def run(index: int) -> None:
        start.wait()
        try:
            work(index)
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            outcomes[index] = error

    threads = [threading.Thread(target=run, args=(index,)) for index in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes
