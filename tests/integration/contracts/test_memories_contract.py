"""MemoryRegistry: one log per memory, one root per batch, each number once for ever (protocol §8)."""

from __future__ import annotations

import pytest

from chainmemory.protocol.evidence import evidence_root
from tests.support.evm import ZERO, Evm, hash_of

ALREADY, ZERO_HASH = 1, 5
LAST = 2**64 - 1
A, B = hash_of("account", 1), hash_of("account", 2)
ROOT = hash_of("root")


def hashes(first: int, count: int) -> list[bytes]:
    return [hash_of("memory", number) for number in range(first, first + count)]


def test_a_batch_logs_each_memory_and_stores_the_root_as_given(evm: Evm) -> None:
    registry = evm.registry
    batch = hashes(1, 3)
    root = bytes.fromhex(evidence_root(["0x" + value.hex() for value in batch])[2:])
    call = registry.functions.record(A, 1, batch, [], root)
    assert evm.simulate(call) == 3
    assert evm.events(registry, evm.send(call)) == [
        ("MemoryRecorded", A, 1, batch[0]),
        ("MemoryRecorded", A, 2, batch[1]),
        ("MemoryRecorded", A, 3, batch[2]),
        ("BatchRecorded", A, 1, root, 1, 3, 3),
    ]
    assert registry.functions.rootOf(A, 1).call() == root
    assert registry.functions.rootOf(A, 2).call() == registry.functions.rootOf(B, 1).call() == ZERO
    assert registry.functions.areRecorded(A, 0, 6).call() == [False, True, True, True, False, False]
    assert registry.functions.isRecorded(A, 3).call() is True
    assert registry.functions.isRecorded(B, 3).call() is False


def test_a_payload_goes_into_the_memory_s_one_log(evm: Evm) -> None:
    registry = evm.registry
    one, two, three = hashes(1, 3)
    payloads = [(7, 10, 4_000_000_000, b"\x01blob"), (1, 1, 0, b""), (255, 0, 5, b"x")]
    receipt = evm.send(registry.functions.record(A, 1, [one, two, three], payloads, ROOT))
    assert evm.events(registry, receipt) == [
        ("MemoryRecordedWithPayload", A, 1, one, 7, 10, 4_000_000_000, b"\x01blob"),
        ("MemoryRecorded", A, 2, two),
        ("MemoryRecordedWithPayload", A, 3, three, 255, 0, 5, b"x"),
        ("BatchRecorded", A, 1, ROOT, 1, 3, 3),
    ]


def test_64_kib_of_ciphertext_fit_and_one_byte_more_leaves_the_hash_alone(evm: Evm) -> None:
    registry = evm.registry
    limit = registry.functions.MAX_CIPHERTEXT().call()
    assert limit == 65536
    one, two = hashes(1, 2)
    fits, too_long = b"\xab" * limit, b"\xab" * (limit + 1)
    receipt = evm.send(
        registry.functions.record(A, 1, [one, two], [(1, 1, 9, fits), (1, 1, 9, too_long)], ROOT)
    )
    assert evm.events(registry, receipt) == [
        ("MemoryRecordedWithPayload", A, 1, one, 1, 1, 9, fits),
        ("MemoryRecorded", A, 2, two),
        ("PayloadSkipped", A, 2, limit + 1),
        ("BatchRecorded", A, 1, ROOT, 1, 2, 2),
    ]


def test_a_number_is_recorded_once_and_the_rest_of_the_batch_goes_on(evm: Evm) -> None:
    registry = evm.registry
    first = hashes(2, 2)
    evm.send(registry.functions.record(A, 2, first, [], ROOT))
    second = [hash_of("other", number) for number in range(1, 6)]
    second[3] = ZERO
    other_root = hash_of("other root")
    receipt = evm.send(registry.functions.record(A, 1, second, [(1, 1, 1, b"p")] * 5, other_root))
    assert evm.events(registry, receipt) == [
        ("MemoryRecordedWithPayload", A, 1, second[0], 1, 1, 1, b"p"),
        ("MemorySkipped", A, 2, second[1], ALREADY),
        ("MemorySkipped", A, 3, second[2], ALREADY),
        ("MemorySkipped", A, 4, ZERO, ZERO_HASH),
        ("MemoryRecordedWithPayload", A, 5, second[4], 1, 1, 1, b"p"),
        ("BatchRecorded", A, 1, other_root, 1, 5, 2),
    ]
    assert registry.functions.areRecorded(A, 1, 5).call() == [True, True, True, False, True]
    assert registry.functions.rootOf(A, 2).call() == ROOT
    assert registry.functions.rootOf(A, 1).call() == other_root


def test_the_same_batch_again_changes_nothing(evm: Evm) -> None:
    registry = evm.registry
    call = registry.functions.record(A, 250, hashes(250, 10), [], ROOT)
    evm.send(call)
    assert evm.simulate(call) == 0
    again = evm.send(registry.functions.record(A, 250, hashes(250, 10), [], hash_of("another root")))
    assert {event[0] for event in evm.events(registry, again)} == {"MemorySkipped"}
    assert registry.functions.rootOf(A, 250).call() == ROOT


@pytest.mark.parametrize("first", [1, 255, 256, 2**40 - 3, LAST - 300])
def test_batches_cross_the_words_of_256_bits(evm: Evm, first: int) -> None:
    registry = evm.registry
    evm.send(registry.functions.record(A, first, hashes(1, 300), [], ROOT))
    recorded = [
        value
        for start in (first - 1, first + 255)
        for value in registry.functions.areRecorded(A, start, 256).call()
    ]
    assert recorded == [False, *[True] * 300, *[False] * 211]


def test_numbers_may_come_in_any_order(evm: Evm) -> None:
    functions = evm.registry.functions
    for number in (300, 3, 1, 299, 2):
        assert evm.simulate(functions.record(A, number, hashes(number, 1), [], ROOT)) == 1
        evm.send(functions.record(A, number, hashes(number, 1), [], ROOT))
    assert functions.areRecorded(A, 0, 5).call() == [False, True, True, True, False]
    assert functions.areRecorded(A, 298, 4).call() == [False, True, True, False]


def test_many_accounts_share_a_transaction(evm: Evm) -> None:
    registry = evm.registry
    one, two, three = hashes(1, 3)
    evm.send(registry.functions.record(B, 4, [three], [], ROOT))
    batches = [
        (A, 1, [one], [], ROOT),
        (B, 3, [two, two], [(1, 2, 3, b"c"), (1, 2, 3, b"d")], hash_of(2)),
        (A, 2, [two], [], hash_of(3)),
    ]
    call = registry.functions.recordMany(batches)
    assert evm.simulate(call) == 3
    assert evm.events(registry, evm.send(call)) == [
        ("MemoryRecorded", A, 1, one),
        ("BatchRecorded", A, 1, ROOT, 1, 1, 1),
        ("MemoryRecordedWithPayload", B, 3, two, 1, 2, 3, b"c"),
        ("MemorySkipped", B, 4, two, ALREADY),
        ("BatchRecorded", B, 3, hash_of(2), 3, 2, 1),
        ("MemoryRecorded", A, 2, two),
        ("BatchRecorded", A, 2, hash_of(3), 2, 1, 1),
    ]


def test_a_call_that_is_no_batch_is_refused_whole(evm: Evm) -> None:
    record = evm.registry.functions.record
    one, two = hashes(1, 2)
    payload = (1, 1, 1, b"p")
    assert evm.refusal(record(A, 1, [one, two], [payload], ROOT)) == ("PayloadCount", 1, 2)
    assert evm.refusal(record(A, 1, [one], [payload, payload], ROOT)) == ("PayloadCount", 2, 1)
    assert evm.refusal(record(A, 1, [one], [], ZERO)) == ("ZeroRoot",)
    assert evm.refusal(record(A, 0, [one, two], [], ROOT)) == ("NumbersOutOfRange", 0, 2)
    assert evm.refusal(record(A, LAST, [one], [], ROOT)) == ("NumbersOutOfRange", LAST, 1)
    assert evm.refusal(record(A, LAST - 1, [one, two], [], ROOT)) == ("NumbersOutOfRange", LAST - 1, 2)
    assert evm.registry.functions.areRecorded(A, 0, 3).call() == [False] * 3


def test_an_empty_batch_writes_nothing(evm: Evm) -> None:
    registry = evm.registry
    assert evm.events(registry, evm.send(registry.functions.record(A, 1, [], [], ROOT))) == []
    assert evm.events(registry, evm.send(registry.functions.recordMany([]))) == []
    assert registry.functions.rootOf(A, 1).call() == ZERO


def test_a_page_is_bounded_and_never_wraps_round(evm: Evm) -> None:
    functions = evm.registry.functions
    evm.send(functions.record(A, 1, hashes(1, 2), [], ROOT))
    assert functions.areRecorded(A, LAST, 4).call() == [False] * 4
    assert functions.areRecorded(A, 1, 0).call() == []
    assert evm.refusal(functions.areRecorded(A, 1, 257)) == ("PageTooLarge", 257, functions.MAX_PAGE().call())


def test_a_memory_is_found_by_its_hash_by_its_account_and_by_its_number(evm: Evm) -> None:
    registry = evm.registry
    evm.send(registry.functions.record(A, 1, hashes(1, 3), [], ROOT))
    evm.send(registry.functions.record(B, 1, hashes(4, 1), [], ROOT))

    def found(**filters: object) -> list[tuple[bytes, int]]:
        logs = registry.events.MemoryRecorded().get_logs(from_block=0, argument_filters=filters)
        return [(log["args"]["accountRef"], log["args"]["number"]) for log in logs]

    assert found(eventHash=hash_of("memory", 2)) == [(A, 2)]
    assert found(accountRef=A) == [(A, 1), (A, 2), (A, 3)]
    assert found(number=1) == [(A, 1), (B, 1)]
