"""A seeded simulation: two workers, a chain and clocks that all misbehave; then the faults stop.

The chain is a model at the gateway's interface, the store a real one in memory-backed files. Checked all
along and at the end: nothing is anchored twice or out of order, nothing is lost, and all ends once the faults
do.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from chainmemory.anchoring.clock import Clock
from chainmemory.anchoring.options import Options
from chainmemory.anchoring.worker import AnchorWorker
from chainmemory.chain.failures import ChainUnavailable
from chainmemory.chain.signer import Signer
from chainmemory.protocol.identity import account_ref, ledger_id
from chainmemory.store.database import Database
from chainmemory.store.outbox_rows import HEAD, MEMORY, STATE, OutboxRow
from chainmemory.store.projects import Project
from tests.support.chains import SIGNER_KEY
from tests.support.model_chain import ANCHORS, REGISTRY, ModelChain, ModelGateway, State
from tests.support.rounds import rows_of, transactions
from tests.support.saving import Person, append_state, create_account, create_project, save

# Steps are the worker's own: effects between which anything may happen. A release's fault run takes more.
STEPS = int(os.environ.get("CHAINMEMORY_TEST_SIMULATION_STEPS", "2000"))
STEPS_A_WORLD = 600
SIGNER = Signer.from_key(SIGNER_KEY)


class Died(BaseException):
    """Stands for SIGKILL."""


@dataclass(frozen=True)
class Shifted(Clock):
    """A process's clocks: they run when the simulation says so, and the wall's can jump."""

    hands: dict[str, float]

    def wall(self) -> datetime:
        return datetime(2026, 1, 1).astimezone() + timedelta(
            seconds=self.hands["steady"] + self.hands["jump"]
        )

    def steady(self) -> float:
        return self.hands["steady"]


class World:
    """One store, one chain, two workers; `act` does one random thing."""

    def __init__(self, rng: random.Random, db: Database) -> None:
        self.rng = rng
        self.db = db
        self.steps = 0
        self.calm = False
        self.depth = 0
        self.reorganises = rng.random() < 0.7
        self.reorganised = 0
        self.anchored = 0
        self.asleep: list[AnchorWorker] = []
        self.person: Person = create_account(db)
        self.projects: list[Project] = [create_project(db, self.person, f"p{n}") for n in range(3)]
        self.versions = dict.fromkeys((p.project_id for p in self.projects), 0)
        self.cited: dict[tuple[str, int], list[int]] = {}
        self.memories = 0
        self.chain = ModelChain(self.check_evidence)
        self.hands = {"steady": 0.0, "jump": 0.0}
        self.options = Options(
            memory_wait_s=0,
            state_wait_s=0,
            head_wait_s=5,
            confirmations=rng.choice([1, 1, 3]),
            payload=False,
            anchor_address=ANCHORS,
            registry_address=REGISTRY,
            lease_s=10,
            resend_s=3,
            missing_s=30,
            stuck_s=20,
            recheck_s=10,
        )
        self.workers = [self.new_worker(), self.new_worker()]

    def new_worker(self) -> AnchorWorker:
        return AnchorWorker(
            self.db,
            ModelGateway(self.chain, self.trouble),
            SIGNER,
            self.options,
            clock=Shifted(self.hands),
            step=self.step,
        )

    # -- what may happen ----------------------------------------------------------------------------

    def act(self) -> None:
        """Do one random thing."""
        actions: list[tuple[int, Callable[[], None]]] = [
            (40, self.run_a_worker),
            (14, self.chain.mine),
            (8, lambda: self.chain.mine(most=1)),
            (8, self.remember),
            (6, self.consolidate),
            (10, lambda: self.pass_time(self.rng.choice([0.5, 2, 7, 12]))),
            (2, self.restart_a_worker),
            (2, self.chain.lose_pool),
            # Not both in one world: where a reorganisation takes a memory out of the chain and something else
            # then takes its nonce, the state behind it is already out of our hands.
            (2, self.reorganise) if self.reorganises else (1, self.chain.use_nonce),
            (1, self.jump),
        ]
        weights = [weight for weight, _ in actions]
        self.rng.choices([action for _, action in actions], weights)[0]()

    def run_a_worker(self) -> None:
        index = self.rng.randrange(2)
        worker = self.workers[index]
        if worker in self.asleep:
            return
        self.asleep.append(worker)
        try:
            worker.run_once()
        except Died:
            self.workers[index] = self.new_worker()
        finally:
            self.asleep.remove(worker)

    def restart_a_worker(self) -> None:
        self.workers[self.rng.randrange(2)] = self.new_worker()

    def remember(self) -> None:
        count = self.rng.randint(1, 4)
        save(self.db, self.person, *[f"memory {self.memories + n}" for n in range(count)])
        self.memories += count

    def consolidate(self) -> None:
        project = self.rng.choice(self.projects)
        version = self.versions[project.project_id] + 1
        numbers = self.rng.sample(range(1, self.memories + 1), min(self.memories, self.rng.randint(0, 3)))
        append_state(self.db, self.person, project, version, cited=[("dec_0001", n) for n in numbers])
        self.versions[project.project_id] = version
        self.cited[project.project_id, version] = numbers

    def pass_time(self, seconds: float) -> None:
        self.hands["steady"] += seconds

    def jump(self) -> None:
        self.hands["jump"] += self.rng.choice([3600, -3600])

    def reorganise(self) -> None:
        self.reorganised += 1
        self.chain.reorganise(self.rng.randint(1, 6), keep=self.rng.random() < 0.5)

    def step(self, name: str) -> None:
        """Between two effects of a worker: it may die here, or sleep while the world goes on."""
        self.steps += 1
        if self.calm:
            return
        chance = self.rng.random()
        if chance < 0.02:
            raise Died
        if chance < 0.06 and self.depth == 0:
            self.depth += 1
            try:
                for _ in range(self.rng.randint(1, 12)):
                    self.act()
            finally:
                self.depth -= 1

    def trouble(self, call: str) -> None:
        """Before and after a call to the node: it may not answer, or the answer may be lost."""
        if not self.calm and self.rng.random() < 0.015:
            raise ChainUnavailable("The node at model:1 can't be reached.")

    # -- what must hold -----------------------------------------------------------------------------

    def check_evidence(self, project_id: str, version: int, before: State) -> None:
        """At the moment a state is written: every memory it cites is there already."""
        recorded = before.memories.get(account_ref(self.person.account_id), {})
        missing = [n for n in self.cited[project_id, version] if n not in recorded]
        assert not missing, f"version {version} was anchored before memories {missing}"

    def settle(self) -> None:
        """Let the faults stop, and everything come to its end."""
        self.calm = True
        for _ in range(400):
            for index in (0, 1):
                self.workers[index].run_once()
            self.chain.mine()
            self.pass_time(3)
            if self.finished():
                return
        raise AssertionError(f"not finished: {[row for row in self.rows() if row.status != 'anchored'][:5]}")

    def rows(self) -> list[OutboxRow]:
        account = self.person.account_id
        states = [row for project in self.projects for row in rows_of(self.db, STATE, project.project_id)]
        return [*rows_of(self.db, MEMORY, account), *states, *rows_of(self.db, HEAD, account)]

    def finished(self) -> bool:
        with self.db.read() as tx:
            account = tx.accounts.get(self.person.account_id)
        heads = rows_of(self.db, HEAD, self.person.account_id)
        done = account.ledger_seq == 0 or (bool(heads) and heads[-1].position == account.ledger_seq)
        return done and all(row.status in ("anchored", "covered") for row in self.rows())

    def check_end(self) -> None:
        """The contracts hold everything exactly once, and the store says where it really is."""
        state, account = self.chain.state, self.person.account_id
        memories = rows_of(self.db, MEMORY, account)
        assert state.memories.get(account_ref(account), {}) == {row.position: row.hash for row in memories}
        for project in self.projects:
            rows = rows_of(self.db, STATE, project.project_id)
            assert [row.status for row in rows] == ["anchored"] * self.versions[project.project_id]
            assert state.states.get(project.project_id, {}) == {row.position: row.hash for row in rows}
        held = state.heads.get(ledger_id(account), {})
        for row in rows_of(self.db, HEAD, account):
            assert row.status == "covered" or held[row.position] == f"0x{row.hash}"
        blocks = {made.block.number: made.block.hash for made in self.chain.made}
        for row in self.rows():
            if row.status == "anchored":
                receipt = self.chain.receipt(row.tx_hash)
                assert receipt is not None, row
                assert (receipt.block_number, receipt.block_hash) == (row.block_number, row.block_hash), row
                assert blocks[receipt.block_number] == receipt.block_hash
        assert state.doubled == 0, "something was sent twice"
        self.anchored = len(self.rows())
        statuses = {row.status for row in transactions(self.db)}
        assert statuses <= {"confirmed", "replaced", "dropped"}, statuses


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    """Give a migrated empty store to copy, on a memory-backed file system where there is one."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder:
        path = Path(folder) / "template.sqlite"
        Database.open(path).close()
        yield path


@pytest.mark.timeout(3600)
def test_whatever_happens_everything_is_anchored_once_and_in_order(template: Path) -> None:
    seed = int(os.environ.get("CHAINMEMORY_TEST_SIMULATION_SEED", random.randrange(2**32)))
    steps = worlds = rows = reorganised = 0
    while steps < STEPS:
        world = _live(seed, template)
        steps, worlds, rows = steps + world.steps, worlds + 1, rows + world.anchored
        reorganised += world.reorganised
        seed += 1
    print(f"{steps} steps in {worlds} worlds, {rows} rows anchored, {reorganised} reorganisations")


def _live(seed: int, template: Path) -> World:
    rng = random.Random(seed)
    path = template.with_name(f"world-{seed}.sqlite")
    shutil.copy(template, path)
    try:
        with Database.open(path) as db:
            world = World(rng, db)
            while world.steps < STEPS_A_WORLD:
                world.act()
            world.settle()
            world.check_end()
            return world
    except BaseException as error:
        error.add_note(f"the world's seed is CHAINMEMORY_TEST_SIMULATION_SEED={seed}")
        raise
    finally:
        path.unlink()
