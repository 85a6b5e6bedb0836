"""Whom memory is encrypted to, and what opens it again; needs the extra ``encrypt``."""

from __future__ import annotations

import os
import string
from collections.abc import Sequence

from colony_memory._boundary import read_written, require_text, several
from colony_memory._format import age
from colony_memory._os.machine import free_memory
from colony_memory._ownfiles import read_key_file, write_key_file

__all__ = ["Passphrase", "make_identity", "read_identities", "read_recipients"]


class Passphrase:
    """A passphrase, as ``encrypt_to`` and ``identities`` take it; it is never shown.

    >>> Passphrase("correct horse battery staple")
    Passphrase(…)

    White space around the words and a byte order mark are left out; a ValueError where there are none.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        if not isinstance(text, str) or not text.strip("\ufeff").strip():
            raise ValueError("a passphrase must be a non-empty string")
        self._text = text.strip(f"\ufeff{string.whitespace}").strip().replace("\r\n", "\n")

    def __repr__(self) -> str:
        return "Passphrase(…)"

    def reveal(self) -> str:
        """The words."""
        return self._text


_ONE = (str, os.PathLike, Passphrase)


def read_recipients(given: object) -> age.Recipients | None:
    """The recipients of ``encrypt_to``, None for none; a ValueError names the one that is wrong."""
    if given is None:
        return None
    names, wanted = list[str](), several("what to encrypt to", given, one=_ONE)
    if not wanted:
        raise ValueError("there is nobody to encrypt to: give at least one recipient, or leave it out")
    age.require_age("encryption is asked for")
    passphrases = [each.reveal() for each in wanted if isinstance(each, Passphrase)]
    for at, each in enumerate(wanted, 1):
        try:
            names += [] if isinstance(each, Passphrase) else [age.spell_recipient(require_text("it", each))]
        except ValueError as error:
            raise ValueError(f"recipient {at} cannot be used: {error}") from None
    if len(passphrases) > 1:
        raise ValueError("there are two passphrases to encrypt with: give one")
    if len(names) > age.MAX_RECIPIENTS:
        raise ValueError(f"there are {len(names)} recipients, more than {age.MAX_RECIPIENTS}")
    return age.Recipients(tuple(sorted({*names})), passphrases[0] if passphrases else None)


def read_identities(given: object, recipients: age.Recipients | None = None) -> age.Identities | None:
    """The keys of ``identities``, None for none; whoever encrypts with a passphrase has that"""
    own = () if recipients is None or recipients.passphrase is None else (recipients.passphrase,)
    if given is None:
        return age.Identities((), own, free_memory) if own else None
    keys = several("identities", given, one=_ONE)
    if not keys:
        raise ValueError("identities is empty: give one, or leave it out")
    age.require_age("identities are given")
    secrets, passphrases = list[str](), [*own, *(each.reveal() for each in keys if isinstance(each, Passphrase))]
    for at, each in enumerate(keys):
        try:
            found = [] if isinstance(each, Passphrase) else _keys_of(each)
            for key in found:
                age.read_identity(key)
        except ValueError as error:
            raise ValueError(f"identities[{at}] cannot be used: {error}") from None
        secrets += found
    return age.Identities(secrets, dict.fromkeys(passphrases), free_memory)


def _keys_of(given: object) -> Sequence[str]:
    if not isinstance(given, (str, os.PathLike)):
        raise ValueError(f"it must be a string, a path or a Passphrase, not {type(given).__name__}")  # noqa: TRY004
    if isinstance(given, str):
        if age.looks_secret(given):
            return age.split_identities(given.strip())
        if not os.path.lexists(given):
            # Not repeated: it may be a passphrase.
            raise ValueError(
                "it is neither an AGE-SECRET-KEY-1…, an SSH private key, nor a key file that is there; a passphrase is "
                "given as Passphrase(…)"
            )
    data = read_key_file(given)
    try:
        return age.split_identities(read_written(data).strip())
    except UnicodeDecodeError:
        raise ValueError(f"key file {os.fspath(given)!r} is no text") from None
    except ValueError as error:
        raise ValueError(f"key file {os.fspath(given)!r}: {error}") from None


def make_identity(path: str | os.PathLike[str]) -> str:
    """Make an identity in a new file that its owner alone may read, and give its recipient, ``age1…``.

    The file is as ``age-keygen`` writes one, and ``age -d -i FILE`` takes it.
    """
    age.require_age("an identity is to be made")
    secret, recipient = age.new_identity()
    write_key_file(path, f"# public key: {recipient}\n{secret}\n".encode("ascii"))
    return recipient
