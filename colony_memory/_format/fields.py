"""Pure: the fields of a manifest that came out of a vault, each as its format demands or an error that names it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from colony_memory._format.names import is_digest, manifest_filename, read_filename
from colony_memory._format.tree import read_tree
from colony_memory._values import dataclass
from colony_memory.exceptions import SnapshotCorrupt, UnsupportedFormat

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeGuard

# What a JSON reader of any language holds exactly.
_LARGEST = 2**53 - 1


@dataclass(frozen=True)
class Fields:
    """A manifest's JSON object, and the label and the id that it must name, None where that is not known.

    Its methods raise :class:`SnapshotCorrupt` unless they say otherwise.
    """

    raw: Mapping[str, Any]
    label: str | None
    snapshot_id: str | None

    @property
    def file(self) -> str | None:
        """The file that it should be, where that is known."""
        if self.label is None or self.snapshot_id is None:
            return None
        return manifest_filename(self.label, self.snapshot_id)

    @property
    def name(self) -> str:
        """What to call it in a message."""
        return self.file or "the manifest"

    def wrong(self, what: str) -> SnapshotCorrupt:
        """The error that says what is wrong with it."""
        return SnapshotCorrupt(f"{self.name} is not a manifest of this snapshot: {what}", file=self.file)

    def one_of(self, key: str, known: tuple[str, ...], what: str) -> str:
        """A text that is one of those known here.

        Raises:
            UnsupportedFormat: It is another one.
        """
        value = self.text(key)
        if value not in known:
            msg = f"unsupported {what}: {value[:80]!r} in {self.name}; a newer colony-memory may read it"
            raise UnsupportedFormat(msg, file=self.file)
        return value

    def place(self) -> tuple[str, str]:
        """The label and the id that it names, which are those that it must name."""
        own_id, own_label = self.text("snapshot_id"), self.text("label")
        if self.snapshot_id not in (None, own_id) or self.label not in (None, own_label):
            raise self.wrong(f"it is the one of label {own_label[:80]!r}, id {own_id[:80]!r}")
        if not is_place(own_label, own_id):
            raise self.wrong(f"{own_label[:80]!r} and {own_id[:80]!r} are no label and id")
        return own_label, own_id

    def text(self, key: str) -> str:
        """A string."""
        value = self.raw.get(key)
        if not isinstance(value, str):
            raise self.wrong(f"{key} should be a string")
        return value

    def digest(self, key: str) -> str:
        """A digest."""
        value = self.text(key)
        if not is_digest(value):
            raise self.wrong(f"{key} should be 'sha256:' and 64 hex digits")
        return value

    def tree(self) -> str:
        """The tree, empty where there is none."""
        try:
            return read_tree(self.raw)
        except ValueError as error:
            raise self.wrong(str(error)) from error

    def count(self, key: str) -> int:
        """A count."""
        value = self.raw.get(key)
        if not _is_count(value):
            raise self.wrong(f"{key} should be a count")
        return value

    def counts(self, value: object, key: str) -> tuple[int, ...]:
        """Counts, of which a value under this key is a list."""
        if not isinstance(value, list) or not all(map(_is_count, value)):
            raise self.wrong(f"{key} should be made of counts")
        return tuple(value)

    def items(self, key: str, kind: type) -> tuple[Any, ...]:
        """A list of values of one kind."""
        value = self.raw.get(key)
        if not isinstance(value, list) or not all(isinstance(each, kind) for each in value):
            named = "strings" if kind is str else f"{kind.__name__}s"
            raise self.wrong(f"{key} should be a list of {named}")
        return tuple(value)


def is_place(label: str, snapshot_id: str) -> bool:
    """Whether a file of a snapshot can bear such a label and such an id."""
    return read_filename(f"cmem.{label}.{snapshot_id}.manifest.json") is not None


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= _LARGEST
