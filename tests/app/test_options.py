"""The options of a backup, as every face passes them."""

from __future__ import annotations

import pytest

from colony_memory import Retention
from colony_memory.app.options import BackupOptions

RULES = Retention(keep_last=2)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"label": "Not one!"}, "label"),
        ({"prune_keep": -1}, "count"),
        ({"prune_keep": 1, "retention": RULES}, "not both"),
        ({"retention": 3}, "Retention"),
        ({"on_conflict": "ask"}, "on_conflict"),
        ({"note": "x" * 1001}, "note"),
        ({"tags": "two words"}, "tag"),
        ({"exclude": ""}, "excludes nothing"),
        ({"exclude": 5}, "exclude"),
        ({"secrets": "maybe"}, "secrets"),
        ({"allow_secrets": "a"}, "names no finding"),
    ],
)
def test_what_no_backup_could_use_is_refused_at_once(wrong, why):
    with pytest.raises(ValueError, match=why):
        BackupOptions(**wrong)
