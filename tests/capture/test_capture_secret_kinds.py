"""Each line of the table of kinds: what it says is found, whatever it is drawn from and wherever it stands."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING

import pytest
from secret_samples import sample

from colony_memory.capture import find_secrets, mask_secrets
from colony_memory.capture._secret_kinds import KINDS, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

DRAWN = 8
#: Some kinds in a test, of all that differ.
GROUPS = pytest.mark.parametrize("kinds", [KINDS[number::8] for number in range(8)], ids=range(8))


def kinds_in(text: str) -> set[str]:
    return {finding.kind for finding in find_secrets({"a": text})}


@GROUPS
@pytest.mark.parametrize("drawn", [DRAWN, pytest.param(5 * DRAWN, marks=pytest.mark.once)])
def test_what_the_table_says_is_found_and_masked(kinds: Sequence[Kind], drawn: int) -> None:
    for kind in kinds:
        draw = random.Random(kind.form)
        samples = [sample(kind, draw) for _ in range(drawn)]
        missed = [each for each in samples if kind.name not in kinds_in(each)]
        assert len(missed) <= 1, (kind.name, missed[:3])
        found = next(each for each in samples if each not in missed)
        for around in ("a {}\n", '"{}"', "'{}'", "<b>{}</b>", "({}),"):
            text = around.format(found)
            masked, findings = mask_secrets({"a": text})
            assert kind.name in {finding.kind for finding in findings}, around
            assert f"[masked: {kind.name}]" in masked["a"]
            assert find_secrets(masked) == ()


@GROUPS
def test_what_only_looks_like_it_is_left_alone(kinds: Sequence[Kind]) -> None:
    for kind in kinds:
        if kind.place or kind.by_hand:
            continue
        found = sample(kind, random.Random(kind.form))
        hint = next(each.decode() for each in kind.hints if each.decode() in found)
        before, _, rest = found.partition(hint)
        part = re.search(r"[A-Za-z0-9]{6,}", rest)
        assert part is not None
        for near in (
            f"{before}{hint}",
            f"{before}x{found}" if not before else hint,
            f"{before}{hint}{'x' * len(rest)}",
            f"{before}{hint}{re.sub(r'[A-Za-z0-9]', '*', rest)}",
            f"{before}{hint}{rest[: len(rest) // 3]}",
            f"{before}{hint}your_{rest[:6]}_here",
            hint + " " + rest,
        ):
            assert kind.name not in kinds_in(f"a {near} b"), near
