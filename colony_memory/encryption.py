"""The recipients of encrypted memory, and the identities that decrypt it; needs the extra ``encrypt``."""

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

    White space around the words and a byte order mark are left out; a ValueError if nothing else is there.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        if not isinstance(text, str) or all(char == "\ufeff" or char.isspace() for char in text):
            raise ValueError("a passphrase must be a non-empty string")
        self._text = text.strip(f"\ufeff{string.whitespace}").strip().replace("\r\n", "\n")

    def __repr__(self) -> str:
        return "Passphrase(…)"

    def reveal(self) -> str:
        """The words."""
        return self._text


_SINGLE = (str, os.PathLike, Passphrase)


def read_recipients(given: object) -> age.Recipients | None:
    """The recipients in ``encrypt_to``, None for none; a ValueError names the one that is wrong."""
    if given is None:
        return None
    names, recipients = list[str](), several("what to encrypt to", given, single=_SINGLE)
    if not recipients:
        raise ValueError("there is nobody to encrypt to: give at least one recipient, or leave it out")
    age.require_age("encryption is asked for")
    passphrases = [recipient.reveal() for recipient in recipients if isinstance(recipient, Passphrase)]
    for at, recipient in enumerate(recipients, 1):
        try:
            names += [] if isinstance(recipient, Passphrase) else [age.spell_recipient(require_text("it", recipient))]
        except ValueError as error:
            raise ValueError(f"recipient {at} cannot be used: {error}") from None
    if len(passphrases) > 1:
        raise ValueError("there are two passphrases to encrypt with: give one")
    if len(names) > age.MAX_RECIPIENTS:
        raise ValueError(f"there are {len(names)} recipients, more than {age.MAX_RECIPIENTS}")
    return age.Recipients(tuple(sorted({*names})), passphrases[0] if passphrases else None)


def read_identities(given: object, recipients: age.Recipients | None = None) -> age.Identities | None:
    """The keys in ``identities``, None for none; a passphrase to encrypt with also decrypts."""
    own = () if recipients is None or recipients.passphrase is None else (recipients.passphrase,)
    if given is None:
        return age.Identities((), own, free_memory) if own else None
    keys = several("identities", given, single=_SINGLE)
    if not keys:
        raise ValueError("identities is empty: give one, or leave it out")
    age.require_age("identities are given")
    secrets, passphrases = list[str](), [*own, *(key.reveal() for key in keys if isinstance(key, Passphrase))]
    for at, key in enumerate(keys):
        try:
            parsed = [] if isinstance(key, Passphrase) else _keys_of(key)
            for secret in parsed:
                age.read_identity(secret)
        except ValueError as error:
            raise ValueError(f"identities[{at}] cannot be used: {error}") from None
        secrets += parsed
    return age.Identities(secrets, dict.fromkeys(passphrases), free_memory)


def _keys_of(source: object) -> Sequence[str]:
    if not isinstance(source, (str, os.PathLike)):
        raise ValueError(f"it must be a string, a path or a Passphrase, not {type(source).__name__}")  # noqa: TRY004
    if isinstance(source, str):
        if age.looks_secret(source):
            return age.split_identities(source.strip())
        if not os.path.lexists(source):
            # Not repeated: it may be a passphrase.
            raise ValueError(
                "it is neither an AGE-SECRET-KEY-1…, an SSH private key, nor a key file that is there; a passphrase is "
                "given as Passphrase(…)"
            )
    data = read_key_file(source)
    try:
        return age.split_identities(read_written(data).strip())
    except UnicodeDecodeError:
        raise ValueError(f"key file {os.fspath(source)!r} is not text") from None
    except ValueError as error:
        raise ValueError(f"key file {os.fspath(source)!r}: {error}") from None


def make_identity(path: str | os.PathLike[str]) -> str:
    """Make an identity in a new file, private to its owner, and return its recipient, ``age1…``.

    The file has the form that ``age-keygen`` writes and ``age -d -i FILE`` takes.
    """
    age.require_age("an identity is to be made")
    secret, recipient = age.new_identity()
    write_key_file(path, f"# public key: {recipient}\n{secret}\n".encode("ascii"))
    return recipient
