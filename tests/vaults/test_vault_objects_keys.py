"""Which key a file has and which file a key is, for whatever names and keys there are."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from colony_memory._format.names import latest_filename, leading_label
from colony_memory.vaults._files import is_plain_name
from colony_memory.vaults.objects import key_of, name_of, read_tag, tag_of

LABELS = st.from_regex(r"[a-z0-9_]([a-z0-9_-]{0,8}[a-z0-9_])?", fullmatch=True)
NAMES = st.one_of(
    st.text(max_size=40), st.builds(lambda label, rest: f"cmem.{label}.{rest}", LABELS, st.text(max_size=20))
).filter(is_plain_name)


@given(NAMES)
@example("n" * 255)
@example("cmem.default.")
@example("cmem.-.latest.json")
@example("=41.json")
def test_a_name_has_one_key_which_every_store_takes(name):
    key = key_of(name)
    assert name_of(key) == name
    assert re.fullmatch(r"([a-z0-9_-]+/)?[A-Za-z0-9._=-]+", key)
    assert len(key) <= 3 * 255 + 172


@given(
    st.one_of(
        st.text(max_size=40), NAMES.map(key_of).flatmap(lambda key: st.sampled_from([f"x/{key}", key[1:], key.upper()]))
    )
)
@example("")
@example("/")
@example("default//cmem.default.x")
@example("default/../cmem.default.x")
@example("../default/cmem.default.x")
@example("default/cmem.default.=2E")
@example("=2Ehidden")
@example("a=2Fb")
@example("=ED=A0=80")
@example(".cmem-vault.json")
def test_a_key_is_that_of_one_name_or_foreign(key):
    name = name_of(key)
    assert name is None or (key_of(name) == key and is_plain_name(name))


@given(LABELS, st.text(max_size=20))
def test_what_begins_with_a_whole_label_lies_in_its_folder(label, rest):
    start = f"cmem.{label}."
    assert leading_label(start + rest) == label
    assert not is_plain_name(start + rest) or key_of(start + rest).startswith(f"{label}/")
    assert key_of(latest_filename(label)) == f"{label}/cmem.{label}.latest.json"


@pytest.mark.parametrize(
    "prefix", ["", "cmem", "cmem.", "cmem.a", "cmem.a-", "cmem.A.", "cmem.-a.", "cmem.a-.", "x.cmem.a."]
)
def test_what_leaves_more_than_one_label_is_looked_for_everywhere(prefix):
    assert leading_label(prefix) is None


@pytest.mark.parametrize("e_tag", ['"abc"', "0x1", 'W/"a|b"', "|", "a|"])
@pytest.mark.parametrize("version", [None, "1700000000000000", "a.b-c_d"])
def test_a_tag_carries_all_that_the_store_needs(e_tag, version):
    state = {"e_tag": e_tag, "version": version}
    assert read_tag("a.json", tag_of(state)) == {name: value for name, value in state.items() if value}
