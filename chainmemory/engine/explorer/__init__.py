"""The explorer: the chain as anybody's browser may read it, through any node that speaks JSON-RPC."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from chainmemory.chain.gateway import Gateway
from chainmemory.engine.chain_view import ChainView, Contracts
from chainmemory.engine.explorer.addresses import AddressView, address_view
from chainmemory.engine.explorer.blocks import BlockPage, BlockView, block_page, block_view
from chainmemory.engine.explorer.directory import Directory
from chainmemory.engine.explorer.home import Home, home
from chainmemory.engine.explorer.memo import Memo
from chainmemory.engine.explorer.memories import MemoryView, memory_view
from chainmemory.engine.explorer.projects import ProjectView, project_view
from chainmemory.engine.explorer.reader import Reader
from chainmemory.engine.explorer.scan import Pace
from chainmemory.engine.explorer.search import Search, search
from chainmemory.engine.explorer.transactions import TransactionView, transaction_view
from chainmemory.engine.explorer.visit import Visit
from chainmemory.errors import NotFound, Unavailable
from chainmemory.settings import Settings
from chainmemory.store.database import Database

TIMEOUT_S: Final = 4.0
MOST_VISITS: Final = 6
"""Pages that read the chain at once; a slow node must not take every thread of the API."""
PATIENCE_S: Final = 1.0
READERS: Final = 6
DENSE_FIRST: Final = 200


class Explorer:
    """Everything the pages show. Safe to share between threads.

    Every method raises Unavailable where the chain doesn't answer, NotFound where what was asked for isn't
    there. Names are as `names` reads them: hashes hex32, addresses checksummed.
    """

    def __init__(self, settings: Settings, db: Database, chain: ChainView) -> None:
        self._db = db
        self._chain = chain
        self._embedded = settings.embedded
        self._gateway = Gateway(settings.chain_url, timeout_s=TIMEOUT_S)
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix="explorer")
        self._places = threading.BoundedSemaphore(MOST_VISITS)
        self._memo = Memo()
        self._pace = Pace()
        self._dense_pace = Pace(DENSE_FIRST)

    def close(self) -> None:
        """Stop the reading threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def home(self) -> Home:
        """Return the front page."""
        with self._visit() as visit:
            return home(visit)

    def blocks(self, top: int | None) -> BlockPage:
        """Return a page of blocks, from `top` (default the head) down."""
        with self._visit() as visit:
            return block_page(visit, top)

    def block(self, name: int | str, first: int) -> BlockView:
        """Return a block by number or hash, its transactions from the `first` on."""
        with self._visit() as visit:
            return block_view(visit, name, first)

    def transaction(self, tx_hash: str, first: int) -> TransactionView:
        """Return a transaction, its events from the `first` on."""
        with self._visit() as visit:
            return transaction_view(visit, tx_hash, first)

    def project(self, name: str, top: int | None, until: int | None) -> ProjectView:
        """Return a project, its versions from `top` down, their events looked for from block `until` back."""
        with self._visit() as visit:
            return project_view(visit, name, top, until)

    def memory(self, event_hash: str, until: int | None) -> MemoryView:
        """Return a memory, looked for from block `until` back."""
        with self._visit() as visit:
            return memory_view(visit, event_hash, until)

    def address(self, address: str, until: int | None) -> AddressView:
        """Return what an address is, its contract's actions from block `until` back."""
        with self._visit() as visit:
            return address_view(visit, address, until)

    def search(self, query: str) -> Search:
        """Look a text up as everything it could name."""
        with self._visit() as visit:
            return search(visit, query)

    @contextmanager
    def _visit(self) -> Iterator[Visit]:
        if not self._places.acquire(timeout=PATIENCE_S):
            raise Unavailable("Too many pages are being read; try again in a moment.", code="busy")
        try:
            reader = Reader(self._gateway, self._pool, self._memo)
            head = reader.head()
            contracts, why_none = self._contracts()
            deployed = contracts.addresses() if contracts is not None else {}
            yield Visit(
                reader,
                self._db,
                head,
                contracts,
                why_none,
                Directory(reader, deployed),
                self._pace,
                self._dense_pace,
                self._embedded,
            )
        finally:
            self._places.release()

    def _contracts(self) -> tuple[Contracts | None, str | None]:
        try:
            return self._chain.contracts(), None
        except NotFound:
            return None, "No contracts are deployed on this chain yet."
        except Unavailable:
            return None, (
                "This deployment's contracts can't be read now: the node doesn't answer for them, "
                "or what lies at their addresses isn't them."
            )
