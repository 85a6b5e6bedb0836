"""The verb ``keygen``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from colony_memory.cli.options import (
    Argument,
    JsonOption,
    Option,
    QuietOption,
)

if TYPE_CHECKING:
    from pathlib import Path

    from colony_memory.cli.output import Output

EXAMPLES = (
    "colony-memory keygen",
    "colony-memory keygen ~/agent/signing.pem",
    "colony-memory keygen --age ~/agent/identity.txt",
)


def run(
    file: Annotated[str | None, Argument(metavar="[FILE]")] = None,
    *,
    age: Annotated[
        bool, Option("--age", help="Make one that opens what is encrypted, in place of one that signs.")
    ] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Make a key for signing snapshots, in a file that only its owner can read.

    FILE is by default signing.pem in the user's configuration directory, with --age identity.txt. What is there already
    is never overwritten.
    """
    import shlex
    from pathlib import Path

    from colony_memory._os.machine import config_directory, expanded
    from colony_memory.cli.output import Output
    from colony_memory.signing import Ed25519Signer

    usual = "identity.txt" if age else "signing.pem"
    try:
        place = config_directory() / usual if file is None else Path(expanded(file))
    except OSError as error:
        raise ValueError(f"{error}, or name a file") from error
    output = Output(as_json, quiet)
    if age:
        return _make_identity(place, output)
    signer = Ed25519Signer.generate()
    signer.save(place)
    if as_json:
        output.answer_json({"key_file": str(place), "did_key": signer.did_key})
    output.report(
        f"key file    {place}",
        f"public key  {signer.did_key}",
        "",
        "Sign from now on:",
        f"  export COLONY_MEMORY_KEY_FILE={shlex.quote(str(place.absolute()))}",
        "Trust it where you only read:",
        f"  export COLONY_MEMORY_TRUST={signer.did_key}",
        "Keep a copy of the key file off this host: without it nothing new can be signed. Nobody can make it again.",
    )
    return 0


def _make_identity(place: Path, output: Output) -> int:
    import shlex

    from colony_memory.encryption import make_identity

    recipient = make_identity(place)
    if output.as_json:
        output.answer_json({"key_file": str(place), "recipient": recipient})
    output.report(
        f"key file    {place}",
        f"public key  {recipient}",
        "",
        "Encrypt from now on:",
        f"  export COLONY_MEMORY_ENCRYPT_TO={recipient}",
        "Read what is encrypted:",
        f"  export COLONY_MEMORY_IDENTITY={shlex.quote(str(place.absolute()))}",
        "Keep a copy of the key file off this host: without it what is encrypted cannot be read again, by anybody.",
    )
    return 0
