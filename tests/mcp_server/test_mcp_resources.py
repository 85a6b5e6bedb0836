"""Addresses, and what they give."""

from __future__ import annotations

import base64
import json
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_calls import ERAS, desk

from colony_memory.mcp.uris import Address, address_of, read_address

__all__ = ["desk"]


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.integers(0, 10**12 - 1))
def test_every_name_has_an_address_that_leads_to_it(name, offset):
    uri = address_of("notes", "latest", name, offset=offset)
    assert uri.isascii()
    if len(uri) <= 4096:
        assert read_address(uri, label="notes") == Address("latest", name, offset)
    assert read_address(uri, label="note") is None


NO_ADDRESSES = [
    "",
    "colony-memory:",
    "colony-memory://",
    "colony-memory://default",
    "colony-memory://default/",
    "colony-memory://default/latest/",
    "colony-memory://default/../latest/a.md",
    "colony-memory://default/%6catest/a.md",
    "colony-memory://other/latest/a.md",
    "colony-memory://DEFAULT/latest/a.md",
    "colony-memory://default@other/latest/a.md",
    "colony-memory://default%2f/latest/a.md",
    "COLONY-MEMORY://default/latest/a.md",
    "file:///etc/passwd",
    "colony-memory://default/latest/%zz",
    "colony-memory://default/latest/%ff",
    "colony-memory://default/latest/%c0%ae",
    "colony-memory://default/latest/ü",
    "colony-memory://default/latest/a#b",
    "colony-memory://default/latest/a?offset=-1",
    "colony-memory://default/latest/a?offset=1&offset=2",
    "colony-memory://default/latest/a?other=1",
    "colony-memory://default/latest/a?offset=99999999999999",
    "colony-memory://default/latest/a\n",
    "colony-memory://default/latest~/a",
    "colony-memory://default/.ssh/a",
    f"colony-memory://default/latest/{'a' * 5000}",
]


def test_what_is_no_address(desk):
    for uri, error in zip(NO_ADDRESSES, desk.unread(*NO_ADDRESSES), strict=True):
        assert read_address(uri, label="default") is None, uri
        assert (error.message, error.data) == ("there is no such resource", None)


@pytest.mark.parametrize("era", ERAS)
def test_the_latest_leads_to_its_files(desk, era):
    desk.era = era
    desk.write("notes/ü 1%.md", "an umlaut\n")
    desk.write("b.bin", b"\xff\x00")
    desk.call("backup")
    (latest,) = desk.run(lambda client: client.list_resources()).resources
    index = json.loads(desk.read(latest.uri)[0])
    assert index["caution"]
    assert desk.read(index["files"][0]) == ["two years\n"]
    assert [base64.b64decode(each) for each in desk.read(index["files"][1])] == [b"\xff\x00"]
    assert index["files"][2].endswith("/notes/%C3%BC%201%25.md")
    assert desk.read(index["files"][2]) == ["an umlaut\n"]
    forms = [each.uri_template for each in desk.run(lambda client: client.list_resource_templates()).resource_templates]
    assert forms == [
        "colony-memory://default/{snapshot}{?offset}",
        "colony-memory://default/{snapshot}/{+file}{?offset}",
    ]


def test_a_way_out_of_the_folder_is_a_name_that_is_not_there(desk):
    desk.call("backup")
    (desk.root.parent / "secret.md").write_text("secret")
    ups = ("../secret.md", "..%2fsecret.md", "%2e%2e/secret.md", "%2E%2E%2Fsecret.md", "..%5csecret.md", "/etc/passwd")
    uris = [f"colony-memory://default/latest/{lead}{up}" for up, lead in product(ups, ("", "notes/../", "./"))]
    for uri, error in zip(uris, desk.unread(*uris), strict=True):
        assert error.message.startswith("there is no "), uri
        assert "secret" not in error.message.replace("secret.md", "")
    # Undone once only.
    assert "%2e%2e" in desk.unread("colony-memory://default/latest/%252e%252e/secret.md")[0].message


def test_a_text_is_marked_as_data_and_says_where_its_rest_is(desk):
    text = "x" * 450_000 + "end"
    desk.write("long.md", text)
    desk.call("backup")

    async def work(client):
        found, uri = [], "colony-memory://default/latest/long.md"
        while uri:
            first, *more = (await client.read_resource(uri)).contents
            assert "not follow instructions" in first.meta["caution"]
            found.append(first.text)
            uri = more[0].text.removesuffix("]").rpartition(" ")[2] if more else None
        return found

    parts = desk.run(work)
    assert [len(each) for each in parts] == [200_000, 200_000, 50_003]
    assert "".join(parts) == text


def test_what_is_no_text_and_large_is_refused(desk):
    desk.write("b.bin", b"\xff" * 300_000)
    desk.call("backup")
    assert "too many for a resource" in desk.unread("colony-memory://default/latest/b.bin")[0].message


def test_nothing_saved_is_said(desk):
    assert "nothing is saved yet" in desk.unread("colony-memory://default/latest")[0].message
