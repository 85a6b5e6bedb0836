"""A memory in a vault: which vault, and the trust and the keys that options and variables give in plain arguments."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from colony_memory._boundary import read_written, require_as_meant, require_text, require_type, texts
from colony_memory._format.age import looks_secret
from colony_memory._format.names import read_filename
from colony_memory._os.files import create_file, read_file
from colony_memory._os.machine import data_directory
from colony_memory._ownfiles import read_key_file
from colony_memory._values import dataclass, pattern
from colony_memory.app.config import at_key, read_setting, url_of
from colony_memory.client import AsyncColonyMemory, ColonyMemory
from colony_memory.exceptions import ColonyMemoryError
from colony_memory.vaults import VARIABLE, is_path, open_vault
from colony_memory.vaults.local import LocalVault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from colony_memory.encryption import Passphrase
    from colony_memory.reports import Event, LifecycleEvent
    from colony_memory.signing import Signer
    from colony_memory.vaults import VaultBackend

#: The hidden file in a local vault that was made on purpose.
_KNOWN = ".known"


@dataclass(frozen=True)
class Place:
    """A vault that was chosen."""

    url: str  # what names it
    backend: VaultBackend
    chosen: bool = True  # false where nobody chose, and it is the local one
    passed_over: Path | None = None  # the local one, which would be used if no key was set

    @property
    def title(self) -> str:
        if self.comes_with_the_account:
            return "the hosted vault"
        return f"the {'' if self.chosen else 'local '}vault {self.url}"

    @property
    def comes_with_the_account(self) -> bool:
        """It is the hosted vault, which nobody makes."""
        return _kind(self.url) == "colony:"

    def exists(self) -> bool:
        """There is a vault, or this host cannot tell."""
        backend: Any = self.backend
        return not hasattr(backend, "exists") or bool(backend.exists())

    @property
    def snapshot_format(self) -> int:
        """The format of new snapshots unless a client is told otherwise, as far as the vault was asked yet."""
        return getattr(self.backend, "snapshot_format", 1)

    def make(self, *, format: Literal[1, 2] | None = None) -> bool:  # noqa: A002 - the word for it
        """Make the vault, if it is one that is to be made; tells whether there was none."""
        missing = not self.exists()
        open_vault(self.url, create=True, format=format)
        return missing

    @property
    def is_known(self) -> bool:
        return self.chosen or (Path(self.backend.path) / _KNOWN).exists()  # type: ignore[attr-defined]

    def make_known(self) -> None:
        """Note of a vault that nobody chose that it was made on purpose."""
        if self.is_known:
            return
        with contextlib.suppress(OSError):  # where nothing can be written, it is said each time
            create_file(Path(self.backend.path) / _KNOWN, b"")  # type: ignore[attr-defined]

    def labels_passed_over(self) -> list[str]:
        """The labels that the local vault has, where a key that is set leads to the hosted one."""
        try:
            names = [] if self.passed_over is None else os.listdir(self.passed_over)  # noqa: PTH208 - names alone
        except OSError:
            return []
        return sorted(found.label for each in names if (found := read_filename(each)) and found.kind == "latest")

    def make_unchosen(self) -> bool:
        """Make the vault that nobody chose where there is none yet; tells whether it did, which is to be said aloud.

        One that somebody chose is never made on the way: it may be on a disk that is not mounted.
        """
        return not self.chosen and not self.exists() and self.make()

    def require(self) -> None:
        backend: Any = self.backend
        if hasattr(backend, "require"):
            backend.require()

    def is_same_as(self, other: Place) -> bool:
        return self._identity() == other._identity()

    def _identity(self) -> object:
        path = getattr(self.backend, "path", None)
        return self.url.rstrip("/") if path is None else path.resolve()


def choose_place(url: str | None = None) -> Place:
    """The vault of the URL, of ``COLONY_MEMORY_VAULT``, the hosted one where there is a key, else a local one.

    Nothing is made, and nothing is asked of the vault: see :meth:`Place.require`.
    """
    chosen, key, passed_over = True, read_setting("COLONY_API_KEY"), None
    if url is None:
        named = read_setting("COLONY_MEMORY_VAULT")
        url = at_key("COLONY_MEMORY_VAULT", url_of, named) if named else "colony:" if key else None
        with contextlib.suppress(OSError):
            passed_over = None if named or not key else data_directory() / "vault"
    if url is not None:
        require_text("url", url)
    if url is None:
        try:
            path = data_directory() / "vault"
        except OSError as error:
            raise ValueError(str(error)) from error
        url, chosen = str(path) if is_path(str(path)) else path.as_uri(), False
    elif _kind(url) == "memory:":
        raise ValueError("a vault memory: would be gone when this process ends: give a directory")
    elif _kind(url) == "colony:" and not key:
        raise ValueError("the hosted vault needs a key: set COLONY_API_KEY")
    return Place(url, open_vault(url), chosen, passed_over)


def require_synchronous(memory: object) -> None:
    """Take no client whose verbs are coroutines: what nobody awaits is not done, and would pass for done."""
    if not isinstance(memory, AsyncColonyMemory):
        require_type("memory", memory, ColonyMemory)
    else:
        raise ValueError(  # noqa: TRY004 - as for a backend that is
            "this client is asynchronous: give one that is not, and call this in a thread of its own"
        )


def refuse_vault_inside(memory: ColonyMemory, paths: Iterable[str | os.PathLike[str]]) -> None:
    """Refuse to back up the vault itself: every snapshot would hold all the ones before.

    Paths that lead nowhere are left to whoever reads them.
    """
    backend = memory._session.vault.backend
    if not issubclass(type(backend), LocalVault):
        return
    vault = backend.path.resolve()
    for path in [os.fspath(each) for each in paths]:
        if os.path.exists(path) and vault.is_relative_to(Path(path).resolve()):  # noqa: PTH110 - never raises
            raise ValueError(
                f"the vault {str(vault)!r} is inside {path!r}: each backup would hold all the ones before; "
                "keep the vault elsewhere, or name what to back up"
            )


def identify_vault(memory: ColonyMemory) -> str | None:
    """The identity of a memory's vault, wherever it is named; None where it has none that outlives this process."""
    backend: Any = memory._session.vault.backend
    # Of the class: what stands in for a vault in a test has any attribute.
    told = backend.identity() if hasattr(type(backend), "identity") else None
    if told is None and isinstance(address := getattr(backend, "__dict__", {}).get("base_url"), str):
        told = f"colony:{address}"  # the SDK's own client
    return told if isinstance(told, str) else None


def _kind(url: str) -> str:
    return url.lower().rstrip("/")


@dataclass(frozen=True)
class OpenMemory:
    """A memory, and the place where it is."""

    memory: ColonyMemory
    place: Place


def open_memory(
    vault: str | None = None,
    *,
    making: bool = False,
    on_event: Callable[[Event | LifecycleEvent], None] | None = None,
    **trust: Any,
) -> OpenMemory:
    """Open the memory in a vault.

    Args:
        vault: URL or directory, by default as :func:`~colony_memory.app.open.choose_place` has it.
        making: The caller is going to write, and calls :meth:`Place.make_unchosen` before: until then the vault that
            nobody chose may be missing.
        on_event: As for :class:`colony_memory.ColonyMemory`.
        trust: In plain arguments, ``key_file``: the signer's key. ``trust``: did:keys to accept beside it, each perhaps
            with ``@`` and the id of the last snapshot that it is trusted for; a text may hold several, separated by
            blanks or commas. ``witness``: a file that keeps how far each label has come. ``require_signature`` and
            ``accept_legacy_pointer`` as for the client. ``encrypt_to``: recipients, or files of them. ``identities``:
            key files that open what is encrypted. ``passphrase_file``: a file with a passphrase.

    Raises:
        VaultMissing: There is no vault.
        ValueError: The URL, the key file, a did:key or the witness cannot be used.
        ColonyMemoryError: An extra is missing.
    """
    given, place = client_arguments(**trust), choose_place(vault)
    if place.chosen or not making:
        place.require()
    return OpenMemory(ColonyMemory(backend=place.backend, on_event=on_event, **given), place)


#: The word that stands for a passphrase, which no option takes itself.
PASSPHRASE = "passphrase"  # noqa: S105 - the word itself
_MAX_BYTES = 65_536
_ADDRESS = pattern(r"[A-Za-z][A-Za-z0-9+.-]+://")


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
    """The arguments of :class:`colony_memory.ColonyMemory` that these plain ones make, those that were given.

    ``ask`` asks for a passphrase, for True twice.
    """
    given: dict[str, Any] = {}
    if key_file:
        given["signer"] = load_signer(settled(key_file) if isinstance(key_file, str) else key_file)
    issuers: dict[str, str | None] = {}
    for each in re.split(r"[\s,]+", " ".join(texts("trust", trust)).strip(" ,")):
        did_key, _, last = each.partition("@")
        issuers |= {did_key: last or None} if did_key else {}
    if issuers:
        given["trusted_issuers"] = {**({given["signer"].did_key: None} if "signer" in given else {}), **issuers}
    if witness:
        from colony_memory.witness import FileWitness

        given["witness"] = FileWitness(settled(witness) if isinstance(witness, str) else witness)
    if require_signature is not None:
        given["require_signature"] = require_signature
    if accept_legacy_pointer:
        given["accept_legacy_pointer"] = True
    wanted, opening = list(_split(encrypt_to)), [each if isinstance(each, str) else str(each) for each in identities]
    words = list[Any]()
    if PASSPHRASE in (*wanted, *opening) or passphrase_file is not None:
        words.append(_passphrase(passphrase_file, ask, twice=PASSPHRASE in wanted))
    recipients = [each for name in wanted for each in (words if name == PASSPHRASE else _recipients(name))]
    keys = [*(_key_file(each) for each in opening if each != PASSPHRASE), *words]
    return given | ({"encrypt_to": recipients} if recipients else {}) | ({"identities": keys} if keys else {})


def load_signer(path: str | os.PathLike[str]) -> Signer:
    from colony_memory.signing import Ed25519Signer, require_cryptography

    require_cryptography("a key file is given")
    try:
        return Ed25519Signer.load(path)
    except ColonyMemoryError as error:
        raise ValueError(error.message) from error


def settled_recipients(given: Iterable[str], settle: Callable[[str], str] | None = None) -> list[str]:
    """Whom to encrypt to, as :func:`key_arguments` takes it, in words that mean the same in any directory."""
    try:
        return [name if _is_recipient(name) else settled_identities([name], settle)[0] for name in _split(given)]
    except ValueError as error:
        raise ValueError(f"{error}, where it is no recipient (age1…, ssh-…)") from error


def settled_identities(given: Iterable[str], settle: Callable[[str], str] | None = None) -> list[str]:
    """Key files, likewise."""
    return [name if name == PASSPHRASE or looks_secret(name) else (settle or settled)(name) for name in given]


def settled(path: str) -> str:
    """A path that means the same in any directory."""
    if VARIABLE.search(path):
        raise ValueError("a path holds a variable that was not expanded; within '' a shell expands none")
    require_as_meant("a path", path)
    if _ADDRESS.match(path):
        raise ValueError("a path of a file is wanted, and an address is given")
    return os.path.abspath(_home(path))  # noqa: PTH100 - a link stays


def _is_recipient(name: str) -> bool:
    return name.lower().startswith(("age1", "ssh-"))


def _split(given: Iterable[str]) -> Iterator[str]:
    """Each recipient. An SSH key is of two words, and a third one that says whose it is only where it is quoted."""
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
    place = Path(_home(name))
    try:
        found = read_file(place, _MAX_BYTES, follow=True)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no name of a file"
        raise ValueError(f"the file of recipients cannot be read: {why}") from error
    if found is None:
        # Not repeated: it may be a passphrase.
        raise ValueError(
            "what is given to encrypt to is neither a recipient (age1…, ssh-…), the word passphrase, "
            "nor a file of recipients that is there"
        )
    try:
        lines = [line.strip() for line in read_written(found.data).splitlines()]
    except ValueError:
        raise ValueError(f"recipients file {name!r} is no text") from None
    kept = [line for line in lines if line and not line.startswith("#")]
    if not kept:
        raise ValueError(f"recipients file {name!r} has no recipient")
    if any("SECRET-KEY-" in line.upper() or "PRIVATE KEY" in line for line in kept):
        raise ValueError(f"{name!r} holds a private key: recipients are public ones")
    return kept


def _key_file(name: str) -> Path:
    if looks_secret(name):
        raise ValueError("a private key itself was given to open with: put it into a file, and give that")
    place = Path(_home(name))
    try:
        read_key_file(place)
    except ColonyMemoryError as error:
        raise ValueError(error.message) from error
    return place


def _passphrase(file: str | os.PathLike[str] | None, ask: Callable[[bool], str] | None, *, twice: bool) -> Passphrase:
    from colony_memory.encryption import Passphrase

    if file is None:
        if ask is None:
            raise ValueError("a passphrase is needed, and no file of it is given")
        return Passphrase(ask(twice))
    place = Path(_home(os.fspath(file)))
    try:
        return Passphrase(read_written(read_key_file(place)))
    except ColonyMemoryError as error:
        raise ValueError(error.message) from error
    except ValueError:
        raise ValueError(f"passphrase file {str(place)!r} is empty, or no text") from None
