"""ChainMemory: a memory for AI agents that can be proved."""

import os

__version__ = "0.1.0"

# eth-hash asks this when it first hashes. By itself it takes pycryptodome, which needs ten times as long: a
# sixth of what it costs to seal a transaction.
os.environ.setdefault("ETH_HASH_BACKEND", "pysha3")
