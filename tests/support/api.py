"""The HTTP API in this process over a real engine and store; accounts that call it; what is in the store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import create_engine, func, make_url, select
from starlette.testclient import TestClient

from api.app import ChainMemoryAPI, create_app
from chainmemory.anchoring.worker import AnchorWorker
from chainmemory.engine.chain_view import ChainView
from chainmemory.engine.runtime import Engine
from chainmemory.settings import Settings
from chainmemory.store.tables import accounts, metadata, projects
from tests.support.chains import QUICK, TesterChain

LOCAL = "http://localhost:8420"


@dataclass
class Api:
    """A running API. `http` calls it as a program on this machine does."""

    app: ChainMemoryAPI
    http: TestClient
    url: str

    @property
    def engine(self) -> Engine:
        return self.app.site.engine

    def account(self) -> Account:
        """Create an account."""
        answer = self.http.post("/v1/keys")
        assert answer.status_code == 201, answer.text
        return Account(self, answer.json()["api_key"], answer.json()["account_id"])

    def stored(self) -> dict[str, Any]:
        """Return how many rows each table has, and where every account and project stands."""
        url = make_url(self.url)
        if url.get_backend_name() == "postgresql":
            url = url.set(drivername="postgresql+psycopg")
        engine = create_engine(url)
        with engine.connect() as connection:
            found: dict[str, Any] = {
                name: connection.execute(select(func.count()).select_from(table)).scalar_one()
                for name, table in metadata.tables.items()
            }
            heads = select(
                accounts.c.account_id, accounts.c.memory_count, accounts.c.ledger_seq, accounts.c.ledger_hash
            )
            found["heads"] = sorted(tuple(row) for row in connection.execute(heads))
            states = select(
                projects.c.project_id,
                projects.c.version,
                projects.c.state_hash,
                projects.c.watermark,
                projects.c.archived,
            )
            found["states"] = sorted(tuple(row) for row in connection.execute(states))
        engine.dispose()
        return found


@dataclass
class Account:
    """An account calling through one of its keys."""

    api: Api
    key: str
    account_id: str
    headers: dict[str, str] = field(default_factory=dict)

    def call(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """Send a request and return the response; `body` is sent as JSON, or as it is where it is bytes."""
        headers = {"x-api-key": self.key, **self.headers, **more.pop("headers", {})}
        sent: dict[str, Any] = {}
        if isinstance(body, bytes):
            sent["content"] = body
        elif body is not None:
            sent["json"] = body
        return self.api.http.request(method, path, headers=headers, **sent, **more)

    def get(self, path: str, **params: Any) -> Any:
        """Return the JSON of a GET that must succeed."""
        return self._done(self.call("GET", path, params=params))

    def post(self, path: str, body: Any = None, *, status: int | None = None) -> Any:
        """Return the JSON of a POST that must succeed."""
        return self._done(self.call("POST", path, body), status)

    def put(self, path: str, body: Any) -> Any:
        """Return the JSON of a PUT that must succeed."""
        return self._done(self.call("PUT", path, body))

    def save(self, content: Any = "Use Clique PoA consensus", **fields: Any) -> dict[str, Any]:
        """Save a memory and return its answer."""
        saved: dict[str, Any] = self.post("/v1/memory", {"content": content, **fields}, status=201)
        return saved

    def ops(self, project: str, *ops: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        """Apply ops and return the answer."""
        body = {"ops": list(ops), **options}
        answer: dict[str, Any] = self.post(f"/v1/project/{project}/state/ops", body)
        return answer

    def member(self, scope: str) -> Account:
        """Return the same account through a new key of another scope."""
        made = self.post("/v1/keys/members", {"label": scope, "scope": scope}, status=201)
        return Account(self.api, made["api_key"], self.account_id)

    def _done(self, response: Any, status: int | None = None) -> Any:
        expected = (status,) if status is not None else (200, 201)
        assert response.status_code in expected, f"{response.status_code} {response.text}"
        return response.json()


@contextmanager
def running_api(
    home: Path, url: str | None = None, *, peer: str = "127.0.0.1", **given: Any
) -> Iterator[Api]:
    """Run an API with a home of its own on the store at `url` (default: SQLite in the home)."""
    # Plenty by default, so that only the tests about it are limited.
    rates = {"public_rate_per_minute": 1_000_000, "public_rate_burst": 100_000}
    settings = Settings.load(home=home, database_url=url, port=8420, **{**rates, **given})
    app = create_app(settings)
    assert isinstance(app, ChainMemoryAPI)
    client = TestClient(app, base_url=LOCAL, client=(peer, 50_000), raise_server_exceptions=False)
    with client:
        yield Api(app, client, settings.store_url)


class HasEngine(Protocol):
    """Something that runs an engine."""

    @property
    def engine(self) -> Engine: ...


def use_chain(api: HasEngine, chain: TesterChain, **changes: Any) -> AnchorWorker:
    """Let the API read an in-process chain, and return a worker, with changed options, that anchors there."""
    engine = api.engine
    engine.chain = ChainView(engine.settings, engine.db, chain.gateway)
    return AnchorWorker(engine.db, chain.gateway, chain.signer, replace(QUICK, **changes))


def refused(response: Any, status: int, code: str, field: str | None = None) -> dict[str, Any]:
    """Check a refusal's status, code and envelope, and return it."""
    assert response.status_code == status, f"{response.status_code} {response.text}"
    envelope: dict[str, Any] = response.json()
    assert list(envelope) == ["error", "code", "field", "details"]
    assert envelope["code"] == code, envelope
    assert isinstance(envelope["error"], str)
    assert len(envelope["error"]) > 10
    assert isinstance(envelope["details"], dict)
    if field is not None:
        assert envelope["field"] == field, envelope
    return envelope
