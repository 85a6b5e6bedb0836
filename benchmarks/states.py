"""All states of a memory: this package in both formats against 0.1.1 in the same run, beside restic, Borg and git."""

from __future__ import annotations

import platform
from typing import Any

import tools
from environments import REPOSITORY, prepare
from evolving import SIZE, STATES, history
from figures import table
from peers import Peer
from plot import plot

# 0.1.1 and format 1 store each state by itself, so that a twentieth of them shows what all take.
_EVERY = 20
# Of what is saved, how much by a client that has just started; and then restored by another.
_SAMPLE = {1: 4, 2: 20}
_PICTURE = REPOSITORY / "docs" / "figures" / "states.svg"
_LIMITS = {"all": 1 / 60, "first": 0.80, "cpu_warm": 0.4, "cpu_restore": 1.25, "peak": 4}


def states(number: int) -> tuple[str, list[dict[str, Any]]]:
    """A table for people, and its numbers, of so many states; draws the picture of the documentation."""
    size = SIZE * number // STATES
    asked = {"count": number, "size": size}
    ours = [_ask("ours", **asked, format=number, every=_EVERY if number == 1 else 1) for number in (1, 2)]
    published = _ask("published", **asked, format=None, every=_EVERY)
    found = {"0.1.1": published, "format 1": ours[0], "format 2": ours[1]}
    for tool, version in tools.installed().items():
        found[f"{tool} {version}"] = tools.save_all(tool, history(number, size), _EVERY)
    rows = [_row(name, figures, published) for name, figures in found.items()]
    _PICTURE.write_text(plot({row["name"]: row["curve"] for row in rows}, every=_EVERY), encoding="utf-8")
    missed = [f"{key} {rows[2][key]:.3f}" for key, limit in _LIMITS.items() if rows[2][key] > limit]
    verdict = f"format 2 misses: {', '.join(missed)}" if missed else "format 2 keeps all its limits"
    title = f"{number} states of {published['text']:,} bytes of text, Python {platform.python_version()}"
    return f"{title}\n\n{_sizes(rows)}\n\n{_costs(rows)}\n\n{verdict}", rows


def _ask(side: str, *, format: int | None, every: int, **asked: Any) -> dict[str, Any]:  # noqa: A002 - as the argument of the client
    without = ("deflate",) if format == 2 else ("deflate", "backports.zstd")
    peer = Peer(getattr(prepare(), side), without=without)
    try:
        found = peer.ask("states", **asked, format=format, every=every, sample=_SAMPLE[format or 1])
    finally:
        peer.close()
    # What was left out would have taken as much as what was saved on average.
    stored, left_out = found["stored"], asked["count"] / len(found["stored"])
    curve = [size * left_out for size in stored[:: _EVERY // every]]
    return {**found, "first": stored[0], "all": stored[-1] * left_out, "curve": curve}


def _row(name: str, figures: dict[str, Any], published: dict[str, Any]) -> dict[str, Any]:
    """What is measured by bytes and seconds, to those of 0.1.1; the rest as it is."""
    row = {
        "name": name,
        "curve": figures["curve"],
        "megabytes": figures["all"] / 1e6,
        "all": figures["all"] / published["all"],
        "first": figures["first"] / published["first"],
        "cpu_warm": figures["cpu_warm"] / published["cpu_warm"],
        "cpu_restore": figures["cpu_restore"] / published["cpu_restore"],
    }
    if "cpu_cold" in figures:
        row["cpu_cold"] = figures["cpu_cold"] / published["cpu_cold"]
        row["peak"] = max(figures[f"peak_{verb}"] for verb in ("warm", "cold", "restore"))
        for verb in ("warm", "cold", "restore"):
            row[f"calls_{verb}"] = f"{figures[f'reads_{verb}']:.0f}+{figures[f'writes_{verb}']:.0f}"
            row[f"wall_{verb}"] = figures[f"wall_{verb}"]
    return row


def _sizes(rows: list[dict[str, Any]]) -> str:
    head = ("what", "MB in all", "to 0.1.1", "first", "CPU of the next", "CPU of a restore")
    return table(
        head,
        [
            (
                row["name"],
                f"{row['megabytes']:.2f}",
                f"1/{1 / row['all']:.1f}",
                *(f"{row[key]:.2f}" for key in ("first", "cpu_warm", "cpu_restore")),
            )
            for row in rows
        ],
    )


def _costs(rows: list[dict[str, Any]]) -> str:
    head = ("what", "CPU cold", "peak", *(f"{kind} {verb}" for kind in ("calls", "s at 50 ms") for verb in _VERBS))
    return table(
        head,
        [
            (
                row["name"],
                f"{row['cpu_cold']:.2f}",
                f"{row['peak']:.2f}",
                *(row[f"calls_{verb}"] for verb in _VERBS),
                *(f"{row[f'wall_{verb}']:.2f}" for verb in _VERBS),
            )
            for row in rows
            if "cpu_cold" in row
        ],
    )


_VERBS = ("warm", "cold", "restore")
