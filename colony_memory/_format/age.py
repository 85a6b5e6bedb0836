"""Encryption and decryption with age, which only this module imports; no error repeats a secret."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from types import ModuleType
from typing import Any

from colony_memory._format.payload import decode_base64
from colony_memory._values import Record, Value, field, pattern
from colony_memory.exceptions import ColonyMemoryError

#: The requirement of encryption and decryption, as the end of a message.
WANTED = "the extra 'encrypt': pip install 'colony-memory[encrypt]'"
_FIRST_LINE = b"age-encryption.org/v1\n"
#: Most recipients of one client.
MAX_RECIPIENTS = 20
# Most bytes of a header, and recipients in it. age's time grows by the square of both: 0.2 s here, 8 s at six times.
_MAX_HEADER, _MAX_STANZAS = 16_384, 64
# Largest N of scrypt, which takes 2^N KiB of memory: 2 GiB here, and 7 s. Writers choose an N of one second: 19 or 20.
_MAX_WORK = 21
# Most keys of other passphrases that a client tries to open, and rounds of scrypt's loop for all of them together.
_MAX_TRIES, _MAX_WORK_IN_ALL = 16, 2**23
# Bytes that have to be free beside scrypt's, for everything else that runs on this host.
_SPARE = 2**26
_SCRYPT = pattern(rb"age-encryption\.org/v1\n-> scrypt [A-Za-z0-9+/]{22} ([1-9][0-9]?)\n")
_NO_FIT = ("No matching keys found", "Decryption failed")
_SECRET = "AGE-SECRET-KEY-"  # noqa: S105 - the prefix of every identity
_PEM = "-----BEGIN "


class NoFit(ValueError):
    """No given key opens the file, which may be intact."""


class NoRoom(NoFit):
    """Not tried, since it takes more memory than is free."""


@cache
def _age() -> ModuleType:
    import pyrage  # type: ignore[import-untyped,import-not-found,unused-ignore]

    return pyrage  # type: ignore[no-any-return,unused-ignore]


def is_installed() -> bool:
    try:
        _age()
    except ImportError:
        return False
    return True


def require_age(why: str) -> None:
    """Raise a ColonyMemoryError that says why, and what to install, unless the extra is installed."""
    if not is_installed():
        raise ColonyMemoryError(f"{why}, which needs {WANTED}")


def new_identity() -> tuple[str, str]:
    identity = _age().x25519.Identity.generate()
    return str(identity), str(identity.to_public())


def spell_recipient(text: str) -> str:
    """A recipient in the form to compare and store: ``age1…``, or an SSH public key without its comment."""
    text = text.strip()
    if _SECRET in text.upper() or _PEM in text:
        raise ValueError("it is a private key: give the public key that belongs to it")
    if text.startswith("ssh-"):
        text = " ".join(text.split()[:2])
    recipient = _recipient(text)
    return text if text.startswith("ssh-") else str(recipient)


def _recipient(text: str) -> Any:
    age = _age()
    kind = age.ssh if text.startswith("ssh-") else age.x25519
    try:
        return kind.Recipient.from_str(text)
    except Exception:  # noqa: BLE001 - nothing in it is fit for a message
        reads = "ssh-ed25519 and ssh-rsa keys" if text.startswith("ssh-") else "age1… and SSH public keys"
    raise ValueError(f"it is not a recipient: {reads} are")


class PassphraseKey(Value):
    """An identity encrypted with a passphrase: scrypt's second is spent on it once, and not on every file."""

    blob: str  # base64 of the age file that holds the identity, encrypted with the passphrase
    recipient: str  # its public half
    secret: str = field(repr=False)  # the identity
    passphrase: str = field(repr=False)  # the passphrase that opens the blob


class Lock(Value):
    recipients: tuple[str, ...]  # all of them, with that of the passphrase's key, sorted
    key: PassphraseKey | None = None  # the passphrase's key, None without a passphrase

    def seal(self, data: bytes) -> bytes:
        return _age().encrypt(data, [_recipient(recipient) for recipient in self.recipients])  # type: ignore[no-any-return]


class Recipients(Record):
    names: tuple[str, ...]  # age and SSH recipients, as spell_recipient returns them
    passphrase: str | None = field(default=None, repr=False)  # a passphrase in addition
    _key: PassphraseKey | None = field(default=None, repr=False)

    def lock(self) -> Lock:
        """The lock of a new chain. A passphrase gets a new key, which serves for the life of this client."""
        if self.passphrase is not None and self._key is None:
            secret, recipient = new_identity()
            sealed = _age().passphrase.encrypt(f"{secret}\n".encode("ascii"), self.passphrase)
            _work_of(sealed)
            self._key = PassphraseKey(base64.b64encode(sealed).decode("ascii"), recipient, secret, self.passphrase)
        return self._with(self._key)

    def lock_with(self, key: PassphraseKey | None) -> Lock | None:
        """The lock with another writer's key; None if its passphrase is another, or only one of the two has any."""
        return self._with(key) if (None if key is None else key.passphrase) == self.passphrase else None

    def _with(self, key: PassphraseKey | None) -> Lock:
        added = (key.recipient,) if key is not None else ()
        return Lock(tuple(sorted({*self.names, *added})), key)


class Identities:
    def __init__(
        self,
        secrets: Iterable[str] = (),
        passphrases: Iterable[str] = (),
        free_memory: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._free_memory, self._work_left = free_memory, _MAX_WORK_IN_ALL
        self._own = [read_identity(secret) for secret in secrets]
        self._passphrases = tuple(passphrases)
        # Opened keys of passphrases by blob, None for one that no given passphrase opens: each attempt takes a second.
        self._keys: dict[str, PassphraseKey | None] = {}

    def __repr__(self) -> str:  # without the keys
        return f"identities: {len(self._own)}, passphrases: {len(self._passphrases)}"

    def open(self, sealed: bytes, key: str = "") -> bytes:
        """The content of an age file; ``key`` is base64 of a passphrase's key. NoFit: nothing given opens it."""
        _check_header(sealed)
        if sealed.startswith(_FIRST_LINE + b"-> scrypt "):
            raise ValueError("it is encrypted with a passphrase, and not to a key")
        wrapped = self.key_of(key)
        identities = [*self._own, *([] if wrapped is None else [read_identity(wrapped.secret)])]
        if not identities:
            raise NoFit("none of the given keys opens it")
        return _call(_age().decrypt, sealed, identities)

    def key_of(self, key: str) -> PassphraseKey | None:
        """The passphrase's key; None if there is none, or if no given passphrase opens it."""
        if not key or not self._passphrases:
            return None
        if key not in self._keys and list(self._keys.values()).count(None) < _MAX_TRIES:
            work = _work_of(b"".join(decode_base64([key])))
            if work > self._work_left:
                return None
            free, needed = self._free_memory(), work * 1024 + _SPARE
            if free is not None and free < needed:
                raise NoRoom(f"its passphrase takes {needed // 2**20} MiB of memory, and {free // 2**20} are free")
            candidates = (_open_key(key, passphrase) for passphrase in self._passphrases)
            self._keys[key] = next((candidate for candidate in candidates if candidate is not None), None)
            if self._keys[key] is None:
                self._work_left -= work  # not for fitting keys: of those a label has as many as its owner passphrases
        return self._keys.get(key)

    def learn(self, key: PassphraseKey | None) -> None:
        if key is not None:
            self._keys[key.blob] = key


def _open_key(key: str, passphrase: str) -> PassphraseKey | None:
    sealed = b"".join(decode_base64([key]))
    try:
        text = _call(_age().passphrase.decrypt, sealed, passphrase).decode("ascii", "replace").strip()
    except NoFit:
        return None
    if not text.startswith(_SECRET):
        raise ValueError("the passphrase decrypts a file that is not an identity")
    return PassphraseKey(key, str(read_identity(text).to_public()), text, passphrase)


def _work_of(sealed: bytes) -> int:
    _check_header(sealed)
    match = _SCRYPT.match(sealed)
    if match is None:
        raise ValueError("the age file is not encrypted with a passphrase")
    if int(match[1]) > _MAX_WORK:
        raise ValueError(f"the passphrase has the work factor 2^{int(match[1])}, more than 2^{_MAX_WORK}")
    return 1 << int(match[1])


def _check_header(sealed: bytes) -> None:
    if not sealed.startswith(_FIRST_LINE):
        raise ValueError("it is not an age file")
    end = sealed.find(b"\n--- ", 0, _MAX_HEADER)
    if end < 0 or sealed.count(b"\n-> ", 0, end) > _MAX_STANZAS:
        raise ValueError(
            f"it is not an age file with a header of at most {_MAX_HEADER} bytes for {_MAX_STANZAS} recipients"
        )


def _call(function: Any, sealed: bytes, key: Any) -> bytes:
    message, panic = "", False
    try:
        return function(sealed, key)  # type: ignore[no-any-return]
    except Exception as error:  # noqa: BLE001 - pyrage has one class for all errors
        message = str(error)
    except BaseException as error:
        if type(error).__module__ != "pyo3_runtime":
            raise
        panic = True  # the library panicked over its input
    # Not as the cause of the new error: there is no telling what it quotes.
    if message.startswith(_NO_FIT):
        raise NoFit("none of the given keys opens it")
    why = message.splitlines()[0][:80].lower() if message and not panic else "nothing could be made of it"
    raise ValueError(f"the age file is damaged: {why}")


def read_identity(text: str) -> Any:
    age, text = _age(), text.strip()
    why = "it is neither an AGE-SECRET-KEY-1… nor an SSH private key"
    try:
        if _PEM in text:
            why = "the SSH private key is damaged, encrypted, or neither Ed25519 nor RSA"
            identity = age.ssh.Identity.from_buffer(f"{text}\n".encode())
        else:
            identity = age.x25519.Identity.from_str(text)
    except Exception:  # noqa: BLE001 - it may quote its input
        identity = None
    if identity is None:
        raise ValueError(why)
    return identity


def split_identities(text: str) -> Sequence[str]:
    """The keys in an identity file: one PEM, or a key a line with comments between."""
    if text.startswith(("age-encryption.org/", f"{_PEM}AGE")):
        raise ValueError("it is encrypted itself: age -d -o NEW FILE writes it without its passphrase")
    if _PEM in text:
        return [text]
    lines = [line.strip() for line in text.splitlines()]
    keys = [line for line in lines if line and not line.startswith("#")]
    if not keys:
        raise ValueError("there is no key in it")
    return keys


def looks_secret(text: str) -> bool:
    """True if a text is a key, perhaps a mistyped one, and not a file name."""
    return _SECRET in text.upper() or _PEM in text or "\n" in text
