"""Runs inside the environment of the published package: one JSON request a line in, one JSON reply a line out.

See ``peer_client.PublishedPeer``, which starts and speaks to it.
"""

import dataclasses
import json
import os
import secrets
import sys
from datetime import datetime
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))

from strict_vault import StrictVault

VERBS = {
    "backup": "backup",
    "restore": "restore",
    "list": "list_snapshots",
    "latest": "latest",
    "prune": "prune",
    "delete": "delete_snapshot",
}


def plain(value):
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def set_clock(client, now, real):
    """Let the published client believe that it is ``now`` (ISO 8601, UTC), or give it its own clock back."""
    client._now_iso, client._new_snapshot_id = real
    if now is not None:
        moment = datetime.fromisoformat(now)
        client._now_iso = lambda: moment.strftime("%Y-%m-%dT%H:%M:%SZ")
        client._new_snapshot_id = lambda: moment.strftime("%Y%m%dT%H%M%S%fZ-") + secrets.token_hex(3)


def main():
    import colony_memory
    from colony_memory import client, snapshot

    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints must not end up among the replies
    real_clock = (client._now_iso, client._new_snapshot_id)
    real_part_chars = snapshot.PART_CHARS

    def answer(request):
        if request["verb"] == "hello":
            return {"version": colony_memory.__version__, "module": colony_memory.__file__}
        vault = StrictVault(request["files"], stop_at=request["stop_at"], applied=request["applied"])
        set_clock(client, request["now"], real_clock)
        snapshot.PART_CHARS = request["part_chars"] or real_part_chars
        seed = request["signer_seed"]
        signer = colony_memory.Ed25519Signer(bytes.fromhex(seed)) if seed else None
        memory = colony_memory.ColonyMemory(backend=vault, signer=signer)
        reply = {"result": None, "error": None}
        try:
            reply["result"] = plain(getattr(memory, VERBS[request["verb"]])(**request["arguments"]))
        except Exception as error:
            reply["error"] = {"kind": type(error).__name__, "message": str(error)}
        return {**reply, "files": vault.files, "calls": vault.calls}

    for line in sys.stdin:
        replies.write(json.dumps(answer(json.loads(line))) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
