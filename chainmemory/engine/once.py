"""Write once: one transaction, run again where a race was lost, and once only for an Idempotency-Key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from chainmemory.engine import clock
from chainmemory.engine.callers import Caller
from chainmemory.store.tx import Tx

if TYPE_CHECKING:
    from chainmemory.engine.runtime import Engine

MAX_KEY_LENGTH: Final = 200
KEPT_FOR_S: Final = 24 * 3600.0
PURGE_EVERY_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Once:
    """A caller's Idempotency-Key: `route` is method and path, `body_hash` the SHA-256 (64 hex) of the body's
    bytes."""

    route: str
    key: str
    body_hash: str


@dataclass(frozen=True, slots=True)
class Written:
    """A write's answer; `replayed` where it is the stored answer of an earlier request."""

    answer: dict[str, Any]
    replayed: bool = False


def write(
    engine: Engine,
    caller: Caller,
    once: Once | None,
    work: Callable[[Tx], dict[str, Any]],
    *,
    numbers: Callable[[dict[str, Any]], tuple[int, int]] | None = None,
) -> Written:
    """Run `work` in one transaction and return its answer.

    With `once`, the key is claimed, the work done and the (encrypted) answer stored in that same transaction:
    of concurrent requests with one key one executes, the others wait and get its answer. A work that raises
    leaves nothing behind, its claim neither. `numbers` tells which memories (first, last) the answer is
    about, so that forgetting one can destroy the answer.

    Raises what `work` raises, and Conflict (`idempotency_conflict`).
    """
    if once is None:
        return Written(engine.db.transact(work))
    return _Claim(engine, caller, once).run(work, numbers)


class _Claim:
    """One claimed key."""

    def __init__(self, engine: Engine, caller: Caller, once: Once) -> None:
        self._engine = engine
        self._account_id = caller.account_id
        self._vault = engine.vault(caller.account_id)
        self._route = once.route
        self._key_hash = self._vault.keyed_hash("once_key", once.key.encode())
        self._body_hash = self._vault.keyed_hash("once_body", once.body_hash.encode())

    def run(
        self,
        work: Callable[[Tx], dict[str, Any]],
        numbers: Callable[[dict[str, Any]], tuple[int, int]] | None,
    ) -> Written:
        def claimed(tx: Tx) -> Written:
            if self._engine.purge_due(PURGE_EVERY_S):
                tx.idempotency.purge(expired=clock.ago(KEPT_FOR_S))
            stored = tx.idempotency.claim(
                self._account_id,
                self._route,
                key_hash=self._key_hash,
                body_hash=self._body_hash,
                now=clock.now(),
                expired=clock.ago(KEPT_FOR_S),
            )
            if stored is not None:
                return Written(self._open(stored.answer_blob), replayed=True)
            answer = work(tx)
            tx.idempotency.store(
                self._account_id,
                self._route,
                key_hash=self._key_hash,
                status=200,
                answer_blob=self._seal(answer),
                numbers=numbers(answer) if numbers is not None else None,
            )
            return Written(answer)

        return self._engine.db.transact(claimed)

    def _seal(self, answer: dict[str, Any]) -> bytes:
        return self._vault.seal_small(orjson.dumps(answer), "answer", route=self._route, key=self._key_hash)

    def _open(self, blob: bytes) -> dict[str, Any]:
        plain = self._vault.open_small(blob, "answer", route=self._route, key=self._key_hash)
        answer: dict[str, Any] = orjson.loads(plain)
        return answer
