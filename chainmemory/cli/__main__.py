"""`python -m chainmemory.cli`: how the supervisor starts its children."""

from chainmemory.cli import main

main()
