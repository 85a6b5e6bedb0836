"""Scoped memory: ``agent:ada:stm`` and its like, each a label with a retention and a lifetime of its own."""

import re
from datetime import datetime, timedelta, timezone
from fnmatch import fnmatchcase

from colony_memory import ColonyMemory, Retention, SnapshotInfo, open_vault

RULES = {  # the first that fits
    "agent:*:stm": (Retention(keep_last=3), timedelta(days=1)),
    "agent:*:ltm": (Retention(keep_last=1, keep_daily=30, keep_monthly=12), None),
    "*": (Retention(keep_last=10), None),
}
_PART = re.compile(r"[a-z0-9_]+(?:-[a-z0-9_]+)*")


def label_of(scope: str) -> str:
    """The label of a scope: labels have no colon, so two hyphens stand for it."""
    if not all(_PART.fullmatch(part) for part in scope.split(":")):
        raise ValueError(f"{scope!r} is no scope: a-z, 0-9, _ and single hyphens, parted by colons")
    return scope.replace(":", "--")


def scope_of(label: str) -> str:
    return label.replace("--", ":")


def rule_of(scope: str) -> tuple[Retention, timedelta | None]:
    return next(rule for glob, rule in RULES.items() if fnmatchcase(scope, glob))


def remember(mem: ColonyMemory, scope: str, documents: dict[str, str], tags: tuple[str, ...] = ()) -> SnapshotInfo:
    return mem.backup(documents, label=label_of(scope), retention=rule_of(scope)[0], tags=(*tags, f"scope:{scope}"))


def recall(
    mem: ColonyMemory, glob: str, *, tag: str | None = None, now: datetime | None = None
) -> dict[str, dict[str, str]]:
    """The latest memory of each scope that matches, as far as its lifetime is not over and it has the tag."""
    now = now or datetime.now(timezone.utc)
    latest: dict[str, SnapshotInfo] = {}
    for info in mem.list_snapshots():  # newest first
        latest.setdefault(scope_of(info.label), info)
    found = {}
    for scope, info in sorted(latest.items()):
        lifetime = rule_of(scope)[1]
        made = datetime.fromisoformat(info.created_at.replace("Z", "+00:00"))
        alive = lifetime is None or now - made < lifetime
        if fnmatchcase(scope, glob) and alive and (tag is None or tag in info.tags):
            found[scope] = mem.restore(label=info.label)
    return found


def forget(mem: ColonyMemory, glob: str, *, now: datetime | None = None) -> int:
    """Delete what has outlived its lifetime: a retention alone always keeps the newest."""
    now, gone = now or datetime.now(timezone.utc), 0
    for info in mem.list_snapshots():
        scope = scope_of(info.label)
        lifetime = rule_of(scope)[1]
        made = datetime.fromisoformat(info.created_at.replace("Z", "+00:00"))
        if fnmatchcase(scope, glob) and lifetime is not None and now - made >= lifetime:
            mem.delete_snapshot(label=info.label, snapshot_id=info.snapshot_id)
            gone += 1
    return gone


if __name__ == "__main__":
    mem = ColonyMemory(backend=open_vault("memory:"))
    for turn in range(5):
        remember(mem, "agent:ada:stm", {"turn.md": f"turn {turn}"}, tags=("tea",))
    remember(mem, "agent:ada:ltm", {"facts.md": "likes tea"})
    remember(mem, "agent:bob:ltm", {"facts.md": "likes rain"})

    assert recall(mem, "agent:ada:*") == {
        "agent:ada:ltm": {"facts.md": "likes tea"},
        "agent:ada:stm": {"turn.md": "turn 4"},
    }
    assert list(recall(mem, "*", tag="tea")) == ["agent:ada:stm"]
    assert len(mem.list_snapshots(label=label_of("agent:ada:stm"))) == 3
    tomorrow = datetime.now(timezone.utc) + timedelta(days=2)
    assert list(recall(mem, "agent:*", now=tomorrow)) == ["agent:ada:ltm", "agent:bob:ltm"]
    assert forget(mem, "agent:*", now=tomorrow) == 3
    assert recall(mem, "agent:*:stm") == {}
    print(*recall(mem, "agent:*"))
