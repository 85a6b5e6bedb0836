"""Every spelling that some file system takes for ``.git``: git runs programs that a file in there names.

The rules are those of git's own ``is_ntfs_dotgit`` and ``is_hfs_dotgit``, made wider where a file system is: ext4 with
folded case passes over more characters than HFS+ does, and ZFS may take compatible characters for one another.
"""

from __future__ import annotations

import re
import unicodedata

# Default_Ignorable_Code_Point of Unicode, by which Linux and macOS tell no two names apart.
_IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# The short names that NTFS and FAT give: the first takers get a number, later ones a hash before it.
_SHORT = re.compile(r"gi(t|[0-9a-f]{4})~[0-9]+")
_DOTLESS = str.maketrans("\u0130\u0131", "ii")


def fold(name: str) -> str:
    """The same for all spellings that some file system takes for one name."""
    plain = _IGNORABLE.sub("", name).translate(_DOTLESS)
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", plain).casefold())
    return _IGNORABLE.sub("", plain)


def is_dotgit(component: str) -> bool:
    """Whether a component of a path is ``.git`` to some file system."""
    if component.isascii() and not component.lower().startswith((".git", "gi")):
        return False
    # Windows cuts off the name of a stream, then blanks and dots at the end.
    plain = fold(component).partition(":")[0].rstrip(" .")
    return plain == ".git" or _SHORT.fullmatch(plain) is not None
