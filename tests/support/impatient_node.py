"""A node that gives a request one second instead of thirty."""

from __future__ import annotations

import sys

from chainmemory.node import server
from chainmemory.node.__main__ import main

server.REQUEST_SECONDS = 1.0

if __name__ == "__main__":
    sys.exit(main())
