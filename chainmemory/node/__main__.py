"""`python -m chainmemory.node`: a node alone, as the tests and `scripts/bench` start it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from chainmemory.errors import ChainMemoryError
from chainmemory.node import NodeConfig, run_node


def main(arguments: list[str] | None = None) -> int:
    """Run a node with the settings of the command line (or those given); 2 when they are wrong."""
    parser = argparse.ArgumentParser(prog="python -m chainmemory.node")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--host", default=NodeConfig.host)
    parser.add_argument("--chain-id", type=int, default=NodeConfig.chain_id)
    parser.add_argument("--period", type=int, default=NodeConfig.period)
    parser.add_argument("--epoch", type=int, default=NodeConfig.epoch)
    parser.add_argument("--gas-limit", type=int, default=NodeConfig.gas_limit)
    parser.add_argument("--alloc", action="append", default=[])
    parser.add_argument("--genesis", type=Path)
    parser.add_argument("--keystore", type=Path)
    parser.add_argument("--password-file", type=Path)
    parser.add_argument("--no-seal", dest="seal", action="store_false")
    parser.add_argument("--peer", dest="peers", action="append", default=[])
    parser.add_argument("--empty-blocks", action="store_true")
    parser.add_argument("--votes-over-rpc", action="store_true")
    parser.add_argument("--ready-file", type=Path)
    parser.add_argument("--log-level", default=NodeConfig.log_level)
    try:
        run_node(NodeConfig(**vars(parser.parse_args(arguments))))
    except ChainMemoryError as error:
        print(f"error: {error.message}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
