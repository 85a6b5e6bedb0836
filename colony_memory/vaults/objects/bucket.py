"""A store as a vault reads it: one object, all objects of a folder, and whether it is a vault at all.

Whatever obstore raises leaves as an error of this package, but for the ``FileNotFoundError`` of an object that is
absent, or whose bucket is: which of the two, :func:`require_vault` finds out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from colony_memory.exceptions import Hint, VaultError, VaultMissing, VaultUnavailable
from colony_memory.vaults._files import UNFIT_FILE
from colony_memory.vaults._marker import (
    IN_OBJECTS,
    MARKER,
    MARKER_BYTES,
    Marked,
    NewerVault,
    read_marker,
    require_marked,
)
from colony_memory.vaults._names import is_ours
from colony_memory.vaults.objects.errors import told
from colony_memory.vaults.objects.keys import name_of
from colony_memory.vaults.objects.stores import refuse_fork

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Iterator
    from typing import Literal

    from obstore import ObjectMeta

_MOST_OBJECTS = 100_000
_PAGE = 1000


class Bucket(NamedTuple):
    """A store, and what it is called in messages."""

    store: Any
    url: str

    def told(self, doing: str) -> contextlib.AbstractContextManager[None]:
        """Whatever is asked of the store is asked within this."""
        refuse_fork(doing)
        return told(doing)

    def read(self, key: str, doing: str, most: int) -> tuple[bytes, ObjectMeta]:
        """An object of at most so many bytes; FileNotFoundError if it, or its bucket, is absent."""
        with self.told(doing):
            found = self.store.get(key)
            meta: ObjectMeta = found.meta
            if meta["size"] > most:
                raise VaultUnavailable(
                    f"{doing} failed: it takes {meta['size']} bytes, and {most} are read at most", code=UNFIT_FILE
                )
            data = bytes(found.bytes())
        if len(data) != meta["size"]:
            raise VaultUnavailable(f"{doing} failed: {len(data)} bytes came of {meta['size']}, try again")
        return data, meta

    def objects(self, folder: str | None, doing: str) -> Iterator[ObjectMeta]:
        """Every object in a folder, or of the whole vault; all of them or an error."""
        number = 0
        try:
            with self.told(doing):
                for page in self.store.list(folder, chunk_size=_PAGE):
                    number += len(page)
                    if number > _MOST_OBJECTS:
                        raise VaultUnavailable(
                            f"{doing} failed: there are more than {_MOST_OBJECTS} objects; give the vault a prefix of "
                            "its own"
                        )
                    yield from page
        except FileNotFoundError:
            raise no_vault(self) from None
        except VaultError as error:
            # Of a listing, only the bucket can be absent.
            raise (no_vault(self) if error.status == 404 else error) from None


def require_vault(bucket: Bucket) -> Literal[1, 2]:
    """Go on only in a vault, see :func:`~colony_memory.vaults._marker.require_marked`."""
    return require_marked(
        look_at_marker(bucket),
        bucket.url,
        used=lambda: holds_snapshots(bucket),
        missing=lambda: no_vault(bucket),
    )


def holds_snapshots(bucket: Bucket) -> bool:
    """Whether there is a file of a snapshot."""
    doing = f"looking into {bucket.url}"
    return any(is_ours(name_of(meta["path"]) or "") for meta in bucket.objects(None, doing))


def look_at_marker(bucket: Bucket) -> Marked:
    """Read the marker.

    Raises:
        VaultUnavailable: A later version made the vault, or it is of another layout.
    """
    try:
        data, _ = bucket.read(MARKER, f"reading the marker of {bucket.url}", MARKER_BYTES)
        return Marked(None, read_marker(data, IN_OBJECTS), data)
    except FileNotFoundError:
        return Marked("")
    except NewerVault as newer:
        raise VaultUnavailable(
            f"what {bucket.url} holds is of the format {newer}: a later version made it, which takes an upgrade, or a "
            "local vault was put there file by file, which 'copy' does right"
        ) from None
    except ValueError as error:
        return Marked(str(error))
    except VaultUnavailable as error:
        if error.code != UNFIT_FILE:
            raise
        return Marked("it is too large")


def no_vault(bucket: Bucket) -> VaultMissing:
    """The error that says that no vault was ever made there, as far as anybody can see."""
    return VaultMissing(
        f"there is no vault in {bucket.url}: none was ever made there, or its bucket is not there",
        hint=Hint("init", "create", value=True),
    )
