"""Vault calls of each verb: reads, and writes, which are uploads and deletes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from figures import Figure, table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from peers import Peers

#: Vaults that this package is measured over. 0.1.1 knows the five methods only.
VAULTS = {"plain": "five methods", "full": "conditional upload, prefix listing"}
_UNSIGNED_LIMITS = {
    ("backup, first", "reads"): 3,
    ("backup, first", "writes"): 3,
    ("backup, changed", "reads"): 3,
    ("backup, changed", "writes"): 3,
    ("backup, unchanged", "reads"): 2,
    ("backup, unchanged", "writes"): 0,
    ("list 100 of 300", "reads"): 2,
}
# A signature costs no call.
_LIMITS = {**_UNSIGNED_LIMITS, **{(f"{verb}, signed", kind): most for (verb, kind), most in _UNSIGNED_LIMITS.items()}}


def calls(peers: Peers, rounds: int) -> list[Figure]:  # noqa: ARG001 - a count is the same every time
    """Reads and writes of each verb over each vault."""
    out = []
    published = peers.ask_fresh("published", "calls", vault="plain")
    for vault, note in VAULTS.items():
        for verb, mine in peers.ask_fresh("ours", "calls", vault=vault).items():
            theirs = published[verb]
            for kind in ("reads", "writes"):
                ratio = mine[kind] / theirs[kind] if theirs[kind] else None
                limit = _LIMITS.get((verb, kind))
                name = f"{verb}: {kind}"
                out.append(Figure("calls", name, theirs[kind], mine[kind], "", ratio, limit, limited="ours", note=note))
    return out


def calls_table(figures: Iterable[Figure]) -> str:
    """One row a verb: reads + writes of 0.1.1, and of this package over each vault."""
    rows: dict[str, dict[tuple[str, str], Figure]] = {}
    for figure in figures:
        verb, _, kind = figure.name.rpartition(": ")
        rows.setdefault(verb, {})[figure.note, kind] = figure
    lines = []
    for verb, found in rows.items():
        some = {kind: found[VAULTS["plain"], kind] for kind in ("reads", "writes")}
        limits = " + ".join("any" if it.limit is None else f"{it.limit:g}" for it in some.values())
        limited = [it for it in found.values() if it.limit is not None]
        cells = [f"{some['reads'].published} + {some['writes'].published}"]
        cells += [f"{found[note, 'reads'].ours} + {found[note, 'writes'].ours}" for note in VAULTS.values()]
        verdict = "" if not limited else "ok" if all(it.holds for it in limited) else "MISSED"
        lines.append((verb, *cells, limits if limited else "", verdict))
    return table(("reads + writes", "0.1.1", *(f"over {note}" for note in VAULTS.values()), "at most", ""), lines)
