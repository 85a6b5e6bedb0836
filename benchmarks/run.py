"""Measure this tree against the published 0.1.1, and against other tools, in the same run, and print ratios.

Any Python with venv will do; what else is needed comes from a package index, and a tool that is not there is left out.

python benchmarks/run.py [--check] [--json] [--only NAME] [--rounds N]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from typing import Any

from environments import HERE, Unprepared, alone, prepare
from evolving import STATES
from fast import fast
from figures import Figure, head, table
from gzip_levels import levels
from measure_calls import calls, calls_table
from measure_catalogue import catalogue
from measure_commands import folders, startup, watch
from measure_folder import folder, secrets
from measure_import import importing
from measure_memory import memory
from measure_time import backup, listing, restore, wait
from peers import Peers
from states import states

GROUPS = {
    "backup": backup,
    "restore": restore,
    "wait": wait,
    "list": listing,
    "memory": memory,
    "import": importing,
    "calls": calls,
    "folder": folder,
    "secrets": secrets,
    "catalogue": catalogue,
    "startup": startup,
    "watch": watch,
    "folders": folders,
}


def _packs(_rounds: int) -> tuple[str, list[dict[str, float]]]:
    text, numbers = json.loads(Peers(prepare()).run_ours(str(HERE / "packs.py")))
    return text, numbers


# Tables of comparisons and of choices that were made; they take long, and decide no exit code.
TABLES = {"gzip": levels, "packs": _packs, "fast": fast, "states": states}


def main() -> int:
    """The exit code: 1 where ``--check`` is given and a figure misses its limit, 2 where it cannot be measured here."""
    options = _options()
    try:
        with alone():
            return _run(options)
    except Unprepared as error:
        _tell(str(error))
        return 2


def _run(options: argparse.Namespace) -> int:
    if options.only and options.only[0] in TABLES:
        number = options.states if options.only == ["states"] else options.rounds
        text, numbers = TABLES[options.only[0]](number)
        print(json.dumps(numbers, indent=2) if options.json else text)
        return 0
    _tell("preparing both environments")
    peers = Peers(prepare())
    facts, figures = _machine(peers), list[Figure]()
    if not options.json:
        print(f"{facts['machine']}; 0.1.1 against {facts['ours']}, {options.rounds} rounds", flush=True)
    for name in options.only or GROUPS:
        _tell(f"measuring {name}")
        found = GROUPS[name](peers, options.rounds)
        figures += found
        if not options.json:
            text = calls_table(found) if name == "calls" else table(head(name), [figure.row() for figure in found])
            print(f"\n## {name}\n\n{text}", flush=True)
    missed = [figure for figure in figures if not figure.holds]
    if options.json:
        print(json.dumps({**facts, "figures": [figure.as_json() for figure in figures]}, indent=2))
    else:
        print(f"\n{len(missed)} of {sum(figure.limit is not None for figure in figures)} limits missed")
    for figure in missed:
        _tell(f"MISSED: {figure.name} ({figure.note})")
    return 1 if options.check and missed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="exit with 1 when a figure misses its limit")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument(
        "--only",
        action="append",
        choices=[*GROUPS, *TABLES],
        help=f"measure only this; may be given again; the tables {', '.join(TABLES)} stand alone",
    )
    parser.add_argument("--rounds", type=int, default=7, help="pairs of each timed figure (default 7)")
    parser.add_argument("--states", type=int, default=STATES, help=f"states of --only states (default {STATES})")
    options = parser.parse_args()
    if options.rounds < 1 or options.states < 40:
        parser.error("--rounds must be at least 1, and --states at least 40")
    if options.only and TABLES.keys() & {*options.only} and len(options.only) > 1:
        parser.error(f"each of --only {', --only '.join(TABLES)} stands alone")
    return options


def _machine(peers: Peers) -> dict[str, Any]:
    """What was compared, on what; both sides must stand on the same."""
    published, ours = (peers.ask_fresh(side, "hello") for side in ("published", "ours"))
    for key in ("python", "beside"):
        if published[key] != ours[key]:
            msg = f"the environments differ in {key}: {published[key]} and {ours[key]}; remove .cache/bench"
            raise RuntimeError(msg)
    beside = ", ".join(f"{name} {version}" for name, version in ours["beside"].items())
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {ours['python']}, {beside}"
    return {"machine": machine, "published": published["version"], "ours": ours["version"]}


def _tell(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
