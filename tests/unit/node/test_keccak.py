"""The hash everything on the chain goes through."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import chainmemory
from eth_hash.auto import keccak
print(keccak(b"").hex(), keccak.hasher.__module__)
"""


def test_the_quick_keccak_is_the_one_in_use() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [
        "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470",
        "eth_hash.backends.pysha3",
    ]
