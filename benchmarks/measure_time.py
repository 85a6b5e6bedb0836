"""CPU time, stored bytes and waiting: backup, restore, list."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import corpus
from figures import Figure
from peers import Pair, in_turn, medians

if TYPE_CHECKING:
    from peers import Peers

_DELAY = 0.05
_LABELS = ["default", "work", "home"]
_EACH = 100


def backup(peers: Peers, rounds: int) -> list[Figure]:
    """CPU time and stored bytes of a backup: the first, the next one after a line was added, one of no change."""
    out = []
    text = corpus.text_8mb()
    for which, what in (("first", "first"), ("changed", "one line added"), ("unchanged", "unchanged")):
        pairs = peers.rounds(rounds, "backup", corpus_file=str(text.path), which=which)
        note = f"{text.documents} documents"
        out.append(_figure("backup", f"backup 8 MB, {what}: CPU", pairs, "cpu", " s", limit=0.4, note=note))
        note = f"{pairs[0].published['parts']} and {pairs[0].ours['parts']} parts"
        out.append(_figure("backup", f"backup 8 MB, {what}: stored", pairs, "stored", " B", limit=1.02, note=note))
    small = corpus.example()
    if small is not None:
        pairs = peers.rounds(rounds, "backup", corpus_file=str(small.path))
        note = f"{small.documents} documents, {small.size:,} bytes"
        out.append(_figure("backup", "backup of the example: CPU", pairs, "cpu", " s", note=note))
        out.append(_figure("backup", "backup of the example: stored", pairs, "stored", " B"))
    return out


def restore(peers: Peers, rounds: int) -> list[Figure]:
    """CPU time of a restore: of its own snapshot, and of one that 0.1.1 wrote."""
    text, small = corpus.text_8mb(), corpus.example()
    pairs = peers.rounds(rounds, "restore", corpus_file=str(text.path))
    out = [_figure("restore", "restore 8 MB: CPU", pairs, "cpu", " s", limit=1, note="each its own snapshot")]
    with tempfile.TemporaryDirectory() as scratch:
        files = str(Path(scratch) / "published.json")
        peers.ask_fresh("published", "save", corpus_file=str(text.path), to=files)
        pairs = peers.rounds(rounds, "restore", corpus_file=str(text.path), files=files)
    out.append(_figure("restore", "restore 8 MB: CPU", pairs, "cpu", " s", limit=1, note="both what 0.1.1 wrote"))
    if small is not None:
        pairs = peers.rounds(rounds, "restore", corpus_file=str(small.path))
        out.append(_figure("restore", "restore of the example: CPU", pairs, "cpu", " s"))
    return out


def wait(peers: Peers, rounds: int) -> list[Figure]:
    """Wall time of a restore with 8 parts from a vault that takes 50 ms a call."""
    documents = corpus.with_pictures()
    pairs = peers.rounds(rounds, "restore_wall", corpus_file=str(documents.path), delay=_DELAY)
    parts = {side["parts"] for pair in pairs for side in pair}
    if parts != {8}:
        msg = f"the corpus should make 8 parts, not {parts}"
        raise RuntimeError(msg)
    name = "restore 8 MB in 8 parts, 50 ms a call: wall"
    return [_figure("wait", name, pairs, "wall", " s", limit=0.4, note=_calls(pairs[0]))]


def listing(peers: Peers, rounds: int) -> list[Figure]:
    """Wall time of listing 100 of 300 snapshots at 50 ms a call; 0.1.1 reads 300 manifests for it, one by one."""
    out = []
    name = "list 100 of 300, 50 ms a call: wall"
    with tempfile.TemporaryDirectory() as scratch:
        files = {side: str(Path(scratch) / f"{side}.json") for side in Pair._fields}
        for side, to in files.items():
            peers.ask_fresh(side, "fill", to=to, labels=_LABELS, each=_EACH)
        for writer, whose in (("ours", "each its own"), ("published", "both what 0.1.1 wrote")):
            with peers.started() as pair:
                asked = ((pair.published, files["published"]), (pair.ours, files[writer]))
                # 300 reads of 50 ms: two rounds are long enough.
                pairs = in_turn(min(rounds, 2), asked, _list)
            if {side["found"] for pair in pairs for side in pair} != {_EACH}:
                raise RuntimeError("not all snapshots were listed")
            out.append(_figure("list", name, pairs, "wall", " s", note=f"{whose}: {_calls(pairs[0])}"))
            if writer == "ours":
                out.append(_figure("list", "list 100 of 300: calls", pairs, "calls", "", limit=2, limited="ours"))
    return out


def _list(asked: tuple[Any, str]) -> Any:
    peer, files = asked
    return peer.ask("list_wall", files=files, delay=_DELAY, label=_LABELS[0])


def _calls(pair: Pair) -> str:
    return " and ".join(f"{side['calls']} calls, {side['at_once']} at once" for side in pair)


def _figure(group: str, name: str, pairs: list[Pair], key: str, unit: str, **more: Any) -> Figure:
    published, ours, ratio = medians(pairs, key)
    return Figure(group, name, published, ours, unit, ratio, **more)
