"""Trust and keys from options, variables and the configuration file, as arguments of a client."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from colony_memory._boundary import read_written, require_as_meant, texts
from colony_memory._format.age import looks_secret
from colony_memory._os.files import read_file
from colony_memory._ownfiles import read_key_file
from colony_memory._values import pattern
from colony_memory.exceptions import ColonyMemoryError
from colony_memory.vaults import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from colony_memory.encryption import Passphrase

#: The word that asks for a passphrase: no option takes the passphrase itself.
PASSPHRASE = "passphrase"  # noqa: S105 - the word itself
_MAX_BYTES = 65_536
_ADDRESS = pattern(r"[A-Za-z][A-Za-z0-9+.-]+://")
_T = TypeVar("_T")


def client_arguments(
    *,
    key_file: str | os.PathLike[str] | None = None,
    trust: str | Iterable[str] = (),
    witness: str | os.PathLike[str] | None = None,
    require_signature: bool | None = None,
    accept_legacy_pointer: bool = False,
    encrypt_to: Iterable[str] = (),
    identities: Iterable[str | os.PathLike[str]] = (),
    passphrase_file: str | os.PathLike[str] | None = None,
    ask: Callable[[bool], str] | None = None,
) -> dict[str, Any]:
    """The arguments of :class:`colony_memory.ColonyMemory` that are set; ``ask(True)`` asks for a passphrase twice."""
    given: dict[str, Any] = {}
    if key_file:
        from colony_memory.signing import Ed25519Signer, require_cryptography

        require_cryptography("a key file is given")
        given["signer"] = _read(Ed25519Signer.load, settled(key_file) if isinstance(key_file, str) else key_file)
    entries = re.split(r"[\s,]+", " ".join(texts("trust", trust)).strip(" ,"))
    issuers = {did_key: last or None for did_key, _, last in (entry.partition("@") for entry in entries) if did_key}
    if issuers and key_file:
        issuers = {given["signer"].did_key: None, **issuers}
    if witness:
        from colony_memory.witness import FileWitness

        given["witness"] = FileWitness(settled(witness) if isinstance(witness, str) else witness)
    names, keys, phrases = list(_split(encrypt_to)), [*map(str, identities)], list[Any]()
    if PASSPHRASE in (*names, *keys) or passphrase_file is not None:
        phrases.append(_passphrase(passphrase_file, ask, twice=PASSPHRASE in names))
    given |= {
        "trusted_issuers": issuers,
        "accept_legacy_pointer": accept_legacy_pointer,
        "encrypt_to": [key for name in names for key in (phrases if name == PASSPHRASE else _recipients(name))],
        "identities": [*(_key_file(key) for key in keys if key != PASSPHRASE), *phrases],
    }
    given = {name: value for name, value in given.items() if value}
    return given if require_signature is None else {**given, "require_signature": require_signature}


def settled_recipients(given: Iterable[str], resolve: Callable[[str], str] | None = None) -> list[str]:
    """Recipients to encrypt to, as :func:`client_arguments` takes them, with absolute paths for files."""
    try:
        return [name if _is_recipient(name) else settled_identities([name], resolve)[0] for name in _split(given)]
    except ValueError as error:
        raise ValueError(f"{error}, where it is no recipient (age1…, ssh-…)") from error


def settled_identities(given: Iterable[str], resolve: Callable[[str], str] | None = None) -> list[str]:
    """Key files to open with, likewise."""
    return [name if name == PASSPHRASE or looks_secret(name) else (resolve or settled)(name) for name in given]


def settled(path: str) -> str:
    """The absolute path of a file, checked for mistakes such as a variable that was not expanded."""
    if VARIABLE.search(path):
        raise ValueError("a path holds a variable that was not expanded; within '' a shell expands none")
    require_as_meant("a path", path)
    if _ADDRESS.match(path):
        raise ValueError("expected the path of a file, not an address")
    return os.path.abspath(_home(path))  # noqa: PTH100 - keep a link


def _is_recipient(name: str) -> bool:
    return name.lower().startswith(("age1", "ssh-"))


def _split(given: Iterable[str]) -> Iterator[str]:
    """One recipient at a time. An SSH key is two words, and a third for its owner only if they are quoted together."""
    words = list[str]()
    for text in given:
        is_key = text.strip().startswith("ssh-") and len(text.split()) > 1
        if is_key or os.path.isfile(_home(text)):  # noqa: PTH113 - never raises
            yield text.strip()
        else:
            words += filter(None, re.split(r"[\s,]+", text))
    while words:
        word = words.pop(0)
        yield f"{word} {words.pop(0)}" if word.startswith("ssh-") and words else word


def _home(path: str) -> str:
    return os.path.expanduser(path)  # noqa: PTH111 - never raises


def _recipients(name: str) -> list[str]:
    if _is_recipient(name):
        return [name]
    if looks_secret(name):
        raise ValueError("a private key was given to encrypt to: give the public one, age1…, that belongs to it")
    try:
        found = read_file(Path(_home(name)), _MAX_BYTES, follow=True)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not a valid file name"
        raise ValueError(f"the file of recipients cannot be read: {why}") from error
    if found is None:
        # The value is not repeated: it may be a passphrase.
        raise ValueError(
            "what is given to encrypt to is neither a recipient (age1…, ssh-…), the word passphrase, "
            "nor a file of recipients that is there"
        )
    try:
        lines = [line.strip() for line in read_written(found.data).splitlines()]
    except ValueError:
        raise ValueError(f"recipients file {name!r} is not text") from None
    kept = [line for line in lines if line and not line.startswith("#")]
    if not kept:
        raise ValueError(f"recipients file {name!r} has no recipient")
    if any("SECRET-KEY-" in line.upper() or "PRIVATE KEY" in line for line in kept):
        raise ValueError(f"{name!r} holds a private key: recipients are public ones")
    return kept


def _key_file(name: str) -> Path:
    if looks_secret(name):
        raise ValueError("a private key itself was given to decrypt with: put it into a file, and give the file")
    path = Path(_home(name))
    _read(read_key_file, path)
    return path


def _read(read: Callable[[Any], _T], path: str | os.PathLike[str]) -> _T:
    """The result of reading a file. ValueError if it cannot be used: it is a bad argument."""
    try:
        return read(path)
    except ColonyMemoryError as error:
        raise ValueError(error.message) from error


def _passphrase(file: str | os.PathLike[str] | None, ask: Callable[[bool], str] | None, *, twice: bool) -> Passphrase:
    from colony_memory.encryption import Passphrase

    if file is None:
        if ask is None:
            raise ValueError("a passphrase is needed, and no passphrase file is given")
        return Passphrase(ask(twice))
    path = Path(_home(os.fspath(file)))
    data = _read(read_key_file, path)
    try:
        return Passphrase(read_written(data))
    except ValueError:
        raise ValueError(f"passphrase file {str(path)!r} is empty or not text") from None
