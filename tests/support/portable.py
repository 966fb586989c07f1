"""The cipher without the CPU's special instructions."""

from __future__ import annotations

import pytest

from chainmemory.vault import cipher


def use_portable(patch: pytest.MonkeyPatch) -> None:
    """Let the cipher use pycryptodome's portable AES and GHASH until `patch` is undone."""
    for names, parts in (
        (("_aes_start", "_aes_stop"), cipher._choose_aes(accelerated=False)),
        (("_ghash", "_ghash_expand", "_ghash_destroy"), cipher._choose_ghash(accelerated=False)),
    ):
        for name, part in zip(names, parts, strict=True):
            patch.setattr(cipher, name, part)
