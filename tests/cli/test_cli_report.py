"""The verb ``report``."""

from __future__ import annotations

import json

from cli_runs import POSIX, save


def test_a_page_is_written_for_its_owner_alone(cli, vault, tmp_path):
    save(vault, {"MEMORY.md": "two years of notes\n"})
    page = tmp_path / "report.html"
    assert cli("report", "--html", str(page)) == (0, f"the report on 1 snapshot is in {page}\n", "")
    assert "two years of notes" in page.read_text()
    if POSIX:
        assert page.stat().st_mode & 0o777 == 0o600
    code, _, err = cli("report", "--html", str(page))
    assert (code, err) == (1, f"error: {page} already exists and is not overwritten\n")
    code, out, _ = cli("report", "--html", str(page), "--no-texts", "--force", "--json")
    assert (code, json.loads(out)) == (0, {"file": str(page), "snapshot_count": 1, "state": "protected"})
    assert "two years of notes" not in page.read_text()


def test_it_can_go_to_the_standard_output_by_other_rules(cli, vault):
    save(vault, {"MEMORY.md": "one\n"})
    code, out, _ = cli("report", "--html", "-", "--keep", "3", "--keep-daily", "7", "--quick")
    assert code == 0
    assert '"retention":"the newest 3, 7 daily"' in out


def test_two_answers_cannot_share_the_standard_output(refused, vault):
    assert "both write" in refused(2, "report", "--html", "-", "--json")
