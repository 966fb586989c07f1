"""What the whole API shares while it runs: settings, engine, thread pool, limiter, metrics."""

from __future__ import annotations

import httpx

from api.limits import RateLimiter
from api.metrics import Metrics
from api.pool import Pool
from api.saving import Saver
from api.turns import Turns
from chainmemory.engine.runtime import Engine
from chainmemory.errors import Unavailable
from chainmemory.settings import Settings

RPC_TIMEOUT_S = 15.0
RPC_AT_ONCE = 2
RPC_WAIT_S = 5.0
MOST_WAITING_FOR_RPC = 64
THREADS = 16  # a handler waits on the disk or the chain most of its time


class Site:
    """One running API. The engine is open from the app's start-up to its shut-down."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.limiter = RateLimiter(settings.public_rate_per_minute, settings.public_rate_burst)
        self.metrics = Metrics()
        self.pool = Pool(THREADS)
        self.rpc_turns = Turns(RPC_AT_ONCE, wait_s=RPC_WAIT_S, most_waiting=MOST_WAITING_FOR_RPC)
        self.in_flight = 0
        """Requests being served at this moment (from the event loop alone)."""
        self._saver: Saver | None = None
        self._engine: Engine | None = None
        self._http: httpx.AsyncClient | None = None

    def http(self) -> httpx.AsyncClient:
        """Return the client that asks the embedded chain (from the event loop alone)."""
        if self._http is None:
            # trust_env=False: no proxy of the environment stands between this server and its own chain.
            self._http = httpx.AsyncClient(timeout=RPC_TIMEOUT_S, trust_env=False)
        return self._http

    async def close_http(self) -> None:
        """Close the client; before `close`."""
        if self._http is not None:
            await self._http.aclose()

    @property
    def engine(self) -> Engine:
        """The open engine. Raises Unavailable before start-up and after shut-down."""
        if self._engine is None:
            raise _not_running()
        return self._engine

    @property
    def saver(self) -> Saver:
        """Where single saves go. Raises Unavailable as `engine` does."""
        if self._saver is None:
            raise _not_running()
        return self._saver

    def open(self) -> None:
        """Open the engine. Raises ConfigurationError, Unavailable."""
        engine = Engine.open(self.settings)
        self._saver = Saver(engine, lambda: self.in_flight)
        self._saver.start()
        self.pool.start()
        self._engine = engine

    def close(self) -> None:
        """Let running requests end, then close the engine."""
        engine, self._engine = self._engine, None
        saver, self._saver = self._saver, None
        if saver is not None:
            saver.close()
        self.pool.close()
        if engine is not None:
            engine.close()


def _not_running() -> Unavailable:
    return Unavailable("The server is starting or stopping; try again in a moment.")
