"""What is wrong is told once, and in the words that people know it by."""

from __future__ import annotations

from cli_runs import save

KEY = "did:key:z6MkehRgf7yJbgaGfYsdoAsKdBPE3dj2CYhowQdcjqSJgvVd"


def test_a_stranger_s_snapshot_is_one_problem(cli, vault):
    info = save(vault, {"a.md": "x"})
    code, out, _ = cli("verify", "--trust", KEY)
    problems = [line for line in out.splitlines() if info.snapshot_id in line and line.startswith("problem  ")]
    assert (code, len(problems)) == (4, 1)
    (problem,) = (line for line in cli("status", "--trust", KEY)[1].splitlines() if line.startswith("problem  "))
    assert problem.count("label") == 1


def test_the_paths_that_were_looked_at_are_in_the_command_that_mends(cli, vault, folder):
    for label in ("default", "other"):
        save(vault, {"a.md": "x"}, incomplete=["b.md: Permission denied"], label=label)
    out = cli("status")[1]
    assert f"mend it  colony-memory backup PATH --vault {vault.path}" in out
    assert f"mend it  colony-memory backup PATH --label other --vault {vault.path}" in out
    out = cli("status", folder)[1]
    assert f"mend it  colony-memory backup {folder} --vault {vault.path}" in out
    assert "--label other" not in out
    again = next(
        line.partition("  ")[2] for line in out.splitlines() if line.startswith("mend it") and "PATH" not in line
    )
    assert cli(*again.split()[1:])[0] == 0
    assert "mend it" not in cli("status", "--label", "default", folder)[1]
