"""What a node needs to know before it starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from chainmemory.errors import ConfigurationError

DEFAULT_CHAIN_ID = 20250
"""Our own number, claimed by no public network: a transaction signed for it is worth nothing elsewhere."""

DEFAULT_EPOCH = 30_000
DEFAULT_GAS_LIMIT = 30_000_000


@dataclass(frozen=True, kw_only=True)
class NodeConfig:
    """The settings of one node; only `data_dir` and `port` have no default."""

    data_dir: Path
    """Holds the chain, its genesis, the authority's keystore; one node at a time."""

    port: int
    """TCP port of the JSON-RPC; 0 takes a free one (see `ready_file`)."""

    host: str = "127.0.0.1"

    chain_id: int = DEFAULT_CHAIN_ID
    """Used when the chain is created; a folder that holds another chain id is refused."""

    period: int = 1
    """Seconds between blocks, at least 1: other clients refuse equal timestamps."""

    epoch: int = DEFAULT_EPOCH
    """Blocks between checkpoints that list the signers and clear the votes."""

    gas_limit: int = DEFAULT_GAS_LIMIT

    alloc: list[str] = field(default_factory=list)
    """Addresses funded at genesis."""

    genesis: Path | None = None
    """A geth genesis.json to start from instead of creating one: how several authorities share a chain."""

    keystore: Path | None = None
    """The authority's keystore file; by default one is made in `data_dir` together with a new genesis."""

    password_file: Path | None = None
    """Holds the keystore's password; needed with `keystore`."""

    seal: bool = True
    """False for a node that only follows its peers."""

    peers: list[str] = field(default_factory=list)
    """RPC addresses of the other nodes: blocks are pulled from them, transactions passed on to them."""

    empty_blocks: bool = False
    """Seal a block each period even when there is nothing to put in it."""

    votes_over_rpc: bool = False
    """Allow `clique_propose` and `clique_discard`: whoever reaches the port may then vote in new signers."""

    ready_file: Path | None = None
    """Written, as `host:port`, once the RPC answers."""

    log_level: str = "info"

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ConfigurationError(f"The chain's port must be 0 to 65535, not {self.port}.", field="port")
        if self.period < 1:
            raise ConfigurationError(
                f"The chain's period must be at least 1 second, not {self.period}.", field="period"
            )
        if self.epoch < 2:
            raise ConfigurationError(
                f"The chain's epoch must be at least 2, not {self.epoch}.", field="epoch"
            )
        if not 1 <= self.chain_id < 2**53:
            raise ConfigurationError(
                f"The chain id must be 1 to 2^53 - 1, not {self.chain_id}.", field="chain_id"
            )
        for url in self.peers:
            parts = urlsplit(url)
            if parts.scheme != "http" or not parts.hostname:
                raise ConfigurationError(
                    f"A peer's address looks like http://127.0.0.1:8421, not {url!r}.", field="peers"
                )
        if self.keystore is not None and self.password_file is None:
            raise ConfigurationError("A keystore needs a password file beside it.", field="password_file")

    @property
    def database_path(self) -> Path:
        return self.data_dir / "chain.sqlite"

    @property
    def genesis_path(self) -> Path:
        return self.data_dir / "genesis.json"

    @property
    def keystore_path(self) -> Path:
        return self.keystore or self.data_dir / "authority.json"

    @property
    def password_path(self) -> Path:
        return self.password_file or self.data_dir / "authority.password"
