"""Pure: what a client accepts.

:mod:`colony_memory.signing` computes; this module decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from colony_memory.signing import verify_manifest

if TYPE_CHECKING:
    from collections.abc import Mapping


def judge(manifest: Mapping[str, Any], *, verify: bool = True) -> str | None:
    """Decide on one manifest and give the issuer that is proven, None where nobody signed or nothing was checked.

    A signature that is there is checked, whoever made it, unless ``verify`` is false.

    Raises:
        UntrustedSnapshot: The signature does not verify.
        ColonyMemoryError: The extra ``sign`` is not installed, so it cannot be checked.
    """
    if not verify or manifest.get("signature") is None:
        return None
    return verify_manifest(manifest)
