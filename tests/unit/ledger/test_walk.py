"""Each clause of protocol §5, "Verdicts", on the chain and on trust."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chainmemory.errors import Invalid
from chainmemory.ledger.entries import read_file_line, read_server_line
from chainmemory.ledger.walk import walk
from chainmemory.protocol.ledger_entry import GENESIS_PREV, entry_hash, make_entry

SHA = "ab" * 32


def sealed(seq: int) -> str:
    """The hash that entry `seq` of a `chain` seals its record by; a walk keeps that alone of an entry."""
    return f"{seq:064x}"


def chain(*memories: str, op: str = "save", start: int = 1, prev: str = GENESIS_PREV) -> list[dict[str, Any]]:
    """A valid chain of file entries, one for each memory id."""
    entries = []
    for seq, memory in enumerate(memories, start):
        entries.append(make_entry(prev, seq, 1.5, op, memory_id=memory, content_sha256=sealed(seq)))
        prev = entries[-1]["hash"]
    return entries


def lines(entries: list[Any]) -> list[bytes]:
    return [one if isinstance(one, bytes) else json.dumps(one).encode() + b"\n" for one in entries]


def rehash(entry: dict[str, Any], **changes: Any) -> dict[str, Any]:
    changed = {**entry, **changes}
    return {**changed, "hash": entry_hash(changed)}


def found(entries: list[Any], heads: dict[int, str] | None = None) -> Any:
    return walk(lines(entries), read_file_line, heads)


def test_no_lines_are_an_empty_chain() -> None:
    walked = found([])
    assert (walked.chain, walked.entries, walked.head) == ("empty", 0, None)


def test_an_intact_chain_is_trusted_as_a_whole() -> None:
    entries = chain("a", "b", "a")
    walked = found(entries)
    assert (walked.chain, walked.broken_at, walked.reason) == ("intact", None, None)
    assert walked.trusted == {"a": sealed(3), "b": sealed(2)}
    assert walked.untrusted == {}
    assert walked.head == (3, entries[2]["hash"])


def test_the_last_line_may_lack_its_line_feed() -> None:
    data = lines(chain("a", "b"))
    assert walk([data[0], data[1].rstrip(b"\n")], read_file_line).chain == "intact"


def test_a_torn_last_line_reads_broken_there() -> None:
    data = lines(chain("a", "b"))
    walked = walk([data[0], data[1][:40]], read_file_line)
    assert (walked.chain, walked.broken_at, walked.reason, walked.entries) == ("broken", 2, "unparseable", 2)


ENTRY = chain("a")[0]


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"",
        b"   \n",
        b"not json\n",
        b"\xef\xbb\xbf" + json.dumps(ENTRY).encode(),
        b'{"seq":"\xff"}\n',
        b"[]\n",
        b'"text"\n',
        json.dumps(ENTRY).encode()[:-1] + b', "seq": 1}\n',
        json.dumps({**ENTRY, "x": float("nan")}).encode(),
        json.dumps({**ENTRY, "x": 2**53}).encode(),
        b'{"x":' + b"[" * 70 + b"]" * 70 + b"}",
        json.dumps({**ENTRY, "x": "\ud800"}).encode(),
        *(json.dumps({k: v for k, v in ENTRY.items() if k != missing}).encode() for missing in ENTRY),
        json.dumps({**ENTRY, "seq": 1.0}).encode(),
        json.dumps({**ENTRY, "seq": "1"}).encode(),
        json.dumps({**ENTRY, "seq": True}).encode(),
        json.dumps({**ENTRY, "ts": None}).encode(),
        json.dumps({**ENTRY, "ts": True}).encode(),
        json.dumps({**ENTRY, "op": 1}).encode(),
        json.dumps({**ENTRY, "memory_id": 7}).encode(),
        json.dumps({**ENTRY, "content_sha256": SHA.upper()}).encode(),
        json.dumps({**ENTRY, "content_sha256": SHA[:-1]}).encode(),
        json.dumps({**ENTRY, "prev": "0x" + "0" * 62}).encode(),
        json.dumps({**ENTRY, "hash": ENTRY["hash"] + "\n"}).encode(),
    ],
)
def test_unparseable(line: bytes) -> None:
    with pytest.raises(Invalid):
        read_file_line(line)
    walked = walk([line], read_file_line)
    assert (walked.chain, walked.broken_at, walked.reason) == ("broken", 1, "unparseable")
    assert walked.trusted == walked.untrusted == {}


@pytest.mark.parametrize("ts", ["2026-01-01T00:00:00.000000Z", 1, 1.5, 1e300])
def test_ts_is_a_number_or_a_string(ts: Any) -> None:
    assert (
        found([make_entry(GENESIS_PREV, 1, ts, "save", memory_id="a", content_sha256=SHA)]).chain == "intact"
    )


def test_further_keys_are_hashed_too() -> None:
    entry = make_entry(
        GENESIS_PREV, 1, 1.5, "save", memory_id="a", content_sha256=SHA, note={"z": [1.5, None]}
    )
    assert found([entry]).chain == "intact"
    assert found([{**entry, "note": {"z": [1.5, 0]}}]).reason == "hash"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"seq": 9, "prev": "f" * 64, "hash": "f" * 64}, "seq"),
        ({"prev": "f" * 64, "hash": "f" * 64}, "prev"),
        ({"hash": "f" * 64}, "hash"),
        ({"op": "other"}, "hash"),
    ],
)
def test_seq_comes_before_prev_before_hash(changes: dict[str, Any], reason: str) -> None:
    first, second, third = chain("a", "b", "c")
    walked = found([first, {**second, **changes}, third])
    assert (walked.broken_at, walked.reason, walked.entries) == (2, reason, 3)


def test_the_first_entry_names_64_zeros() -> None:
    walked = found([rehash(ENTRY, prev="1" * 64)])
    assert (walked.broken_at, walked.reason) == (1, "prev")


def test_only_the_first_failure_is_named_and_the_walk_goes_on() -> None:
    entries = chain("a", "b", "c", "d")
    walked = found([entries[0], b"x\n", entries[2], {**entries[3], "hash": "f" * 64}])
    assert (walked.broken_at, walked.reason, walked.entries) == (2, "unparseable", 4)
    assert set(walked.trusted) == {"a"}
    assert set(walked.untrusted) == {"c", "d"}


def test_on_prev_the_entry_before_the_break_is_not_trusted() -> None:
    entries = chain("a", "b", "c", "d")
    forged = rehash(entries[1], content_sha256="cd" * 32)
    walked = found([entries[0], forged, *entries[2:]])
    assert (walked.broken_at, walked.reason) == (3, "prev")
    assert set(walked.trusted) == {"a"}
    assert set(walked.untrusted) == {"b", "c", "d"}


@pytest.mark.parametrize(
    ("bad", "reason"), [(b"x\n", "unparseable"), ({"seq": 7}, "seq"), ({"op": "x"}, "hash")]
)
def test_on_another_reason_it_is(bad: Any, reason: str) -> None:
    entries = chain("a", "b", "c")
    third = bad if isinstance(bad, bytes) else {**entries[2], **bad}
    walked = found([*entries[:2], third])
    assert walked.reason == reason
    assert set(walked.trusted) == {"a", "b"}


def test_a_trusted_entry_is_kept_beside_a_later_untrusted_one() -> None:
    entries = chain("a", "b", "c", "a")
    walked = found([*entries[:2], b"x\n", entries[3]])
    assert walked.trusted["a"] == sealed(1)
    assert walked.untrusted["a"] == sealed(4)


class TestHeads:
    """Trust on a broken chain where anchored heads are known."""

    def test_a_head_vouches_for_what_it_leads_back_to(self) -> None:
        entries = chain("a", "b", "c", "d", "e")
        damaged = [b"x\n", *entries[1:]]
        walked = found(damaged, {4: entries[3]["hash"]})
        assert (walked.chain, walked.broken_at, walked.heads_missing) == ("broken", 1, [])
        assert set(walked.trusted) == {"b", "c", "d"}
        assert set(walked.untrusted) == {"e"}

    def test_a_rewritten_middle_with_all_later_hashes_recomputed(self) -> None:
        entries = chain("a", "b", "c", "d")
        forged = [entries[0], rehash(entries[1], content_sha256="cd" * 32)]
        for entry in entries[2:]:
            forged.append(rehash(entry, prev=forged[-1]["hash"]))
        walked = found(forged, {2: entries[1]["hash"]})
        assert (walked.chain, walked.heads_missing) == ("intact", [2])
        assert set(walked.trusted) == {"a", "b", "c", "d"}

    def test_no_head_found_means_nothing_is_trusted(self) -> None:
        entries = chain("a", "b", "c")
        walked = found([*entries[:2], b"x\n"], {3: entries[2]["hash"]})
        assert walked.heads_missing == [3]
        assert walked.trusted == {}
        assert set(walked.untrusted) == {"a", "b"}

    def test_entries_after_the_last_head_are_not_trusted_though_before_the_break(self) -> None:
        entries = chain("a", "b", "c")
        walked = found([*entries, b"x\n"], {1: entries[0]["hash"]})
        assert set(walked.trusted) == {"a"}
        assert set(walked.untrusted) == {"b", "c"}

    def test_trust_goes_by_the_computed_hash_not_by_the_one_written_down(self) -> None:
        entries = chain("a", "b")
        lying = {**entries[1], "content_sha256": "cd" * 32}
        walked = found([entries[0], lying], {2: entries[1]["hash"]})
        assert walked.heads_missing == [2]
        assert walked.trusted == {}
        only_label_wrong = {**entries[1], "hash": "f" * 64}
        walked = found([entries[0], only_label_wrong], {2: entries[1]["hash"]})
        assert (walked.reason, walked.heads_missing) == ("hash", [])
        assert set(walked.trusted) == {"a", "b"}

    def test_trust_goes_by_position_not_by_seq(self) -> None:
        entries = chain("a", "b", "c")
        walked = found(entries[1:], {2: entries[1]["hash"], 3: entries[2]["hash"]})
        assert walked.heads_missing == [2, 3]
        assert walked.trusted == {}

    def test_of_several_heads_each_vouches_for_its_own_stretch(self) -> None:
        entries = chain(*"abcdef")
        damaged = [*entries[:2], b"x\n", *entries[3:]]
        walked = found(damaged, {1: entries[0]["hash"], 5: entries[4]["hash"]})
        assert set(walked.trusted) == {"a", "d", "e"}
        assert set(walked.untrusted) == {"b", "f"}

    def test_an_intact_chain_needs_no_head(self) -> None:
        entries = chain("a", "b", "c")
        walked = found(entries, {2: entries[1]["hash"]})
        assert set(walked.trusted) == {"a", "b", "c"}
        assert walked.heads_missing == []

    def test_a_head_beyond_the_end_is_missing(self) -> None:
        entries = chain("a", "b", "c")
        assert found(entries[:2], {3: entries[2]["hash"]}).heads_missing == [3]


PROJECT = "0x" + "12" * 32
SERVER = {
    "memory:7": ("save", {"memory_id": "7", "content_sha256": SHA, "blob_sha256": SHA}),
    "memory:8": ("adopt", {"memory_id": "8", "content_sha256": SHA, "blob_sha256": SHA}),
    "memory:9": ("forget", {"memory_id": "9", "content_sha256": SHA, "blob_sha256": SHA, "rest_sha256": SHA}),
    "fact:f-1@2": ("fact", {"fact_id": "f-1", "version": 2, "fact_sha256": SHA}),
    "fact:f-1@3": ("forget", {"fact_id": "f-1", "version": 3, "fact_sha256": SHA, "rest_sha256": SHA}),
    f"state:{PROJECT}@3": ("state", {"project_id": PROJECT, "version": 3, "state_hash": "0x" + SHA}),
}


def server_line(op: str, keys: dict[str, Any]) -> bytes:
    return json.dumps(make_entry(GENESIS_PREV, 1, "2026-01-01T00:00:00.000000Z", op, **keys)).encode()


@pytest.mark.parametrize("record", SERVER)
def test_the_server_seals_memories_facts_and_states(record: str) -> None:
    op, keys = SERVER[record]
    entry = read_server_line(server_line(op, keys))
    assert (entry.record, entry.op) == (record, op)
    assert set(entry.seals.values()) <= {SHA, "0x" + SHA}
    assert entry.rest_sha256 == keys.get("rest_sha256")
    assert walk([server_line(op, keys)], read_server_line).chain == "intact"


@pytest.mark.parametrize(
    ("record", "key"), [(record, key) for record, (_, keys) in SERVER.items() for key in keys]
)
def test_on_the_server_each_fixed_key_is_needed(record: str, key: str) -> None:
    op, keys = SERVER[record]
    without = {name: value for name, value in keys.items() if name != key}
    for wrong in (without, {**keys, key: [keys[key]]}):
        with pytest.raises(Invalid):
            read_server_line(server_line(op, wrong))


@pytest.mark.parametrize("op", ["SAVE", "delete", "", "seal"])
def test_on_the_server_an_unknown_op_is_unparseable_and_in_a_file_it_is_not(op: str) -> None:
    with pytest.raises(Invalid):
        read_server_line(server_line(op, SERVER["memory:7"][1]))
    assert read_file_line(server_line(op, SERVER["memory:7"][1])).op == op


class TestRepaired:
    """What an owner knowingly accepted: `repaired`, never plain intact."""

    @staticmethod
    def accept(entries: list[Any], seq: int, prev: str, **what: Any) -> list[Any]:
        accepts = {"breaks": [], "heads": [], "reason": "restored from Tuesday", **what}
        keys = {"memory_id": "z", "content_sha256": sealed(seq), "accepts": accepts}
        return [*entries, make_entry(prev, seq, 1.5, "adopt", **keys)]

    def test_a_dropped_line_is_one_break_and_can_be_named(self) -> None:
        entries = chain("a", "b", "c", "d", "e")
        damaged = [entries[0], *entries[2:]]
        assert (found(damaged).broken_at, found(damaged).reason) == (2, "seq")
        breaks = [{"at": 2, "reason": "seq"}]
        walked = found(self.accept(damaged, 6, entries[-1]["hash"], breaks=breaks))
        assert (walked.chain, walked.broken_at, walked.reason) == ("repaired", 2, "seq")
        assert walked.trusted == {
            name: sealed(seq) for seq, name in ((1, "a"), (3, "c"), (4, "d"), (5, "e"), (6, "z"))
        }
        assert walked.untrusted == {}

    def test_a_break_nobody_accepted_is_still_broken(self) -> None:
        entries = chain("a", "b", "c", "d", "e", "f")
        damaged = [entries[0], entries[2], entries[4], entries[5]]
        accepted = self.accept(damaged, 7, entries[-1]["hash"], breaks=[{"at": 2, "reason": "seq"}])
        assert (found(accepted).chain, found(accepted).broken_at) == ("broken", 2)
        both = [{"at": 2, "reason": "seq"}, {"at": 3, "reason": "seq"}]
        assert found(self.accept(damaged, 7, entries[-1]["hash"], breaks=both)).chain == "repaired"

    def test_another_reason_or_a_later_break_is_not_what_was_accepted(self) -> None:
        entries = chain("a", "b", "c")
        damaged = [entries[0], entries[2]]
        wrong = self.accept(damaged, 4, entries[-1]["hash"], breaks=[{"at": 2, "reason": "prev"}])
        assert found(wrong).chain == "broken"
        later = self.accept(entries, 4, entries[-1]["hash"], breaks=[{"at": 5, "reason": "seq"}])
        assert found([*later, *chain("q", start=7, prev=later[-1]["hash"])]).chain == "broken"

    def test_a_lost_head_can_be_accepted_and_the_chain_is_intact_no_more(self) -> None:
        entries = chain("a", "b")
        heads = {5: "e" * 64}
        assert (found(entries, heads).chain, found(entries, heads).heads_missing) == ("intact", [5])
        accepted = self.accept(entries, 3, entries[-1]["hash"], heads=[{"seq": 5, "hash": "e" * 64}])
        walked = found(accepted, heads)
        assert (walked.chain, walked.heads_missing) == ("repaired", [5])
        assert found(accepted, {**heads, 6: "f" * 64}).chain == "intact"

    def test_an_entry_whose_own_hash_is_wrong_seals_nothing_though_its_break_is_accepted(self) -> None:
        entries = chain("a", "b", "c")
        damaged = [entries[0], {**entries[1], "content_sha256": "cd" * 32}, entries[2]]
        walked = found(self.accept(damaged, 4, entries[-1]["hash"], breaks=[{"at": 2, "reason": "hash"}]))
        assert walked.chain == "repaired"
        assert set(walked.trusted) == {"a", "c", "z"}

    def test_what_accepts_must_itself_be_right(self) -> None:
        entries = chain("a", "b", "c")
        damaged = [entries[0], entries[2]]
        *_, accepting = self.accept(damaged, 4, entries[-1]["hash"], breaks=[{"at": 2, "reason": "seq"}])
        assert found([*damaged, {**accepting, "ts": 2.5}]).chain == "broken"
        assert found([*damaged, rehash(accepting, prev="f" * 64)]).chain == "broken"


@pytest.mark.parametrize(
    "accepts",
    [
        None,
        {},
        {"breaks": [], "heads": [], "reason": None},
        {"breaks": [{"at": 0, "reason": "seq"}], "heads": [], "reason": ""},
        {"breaks": [{"at": 1, "reason": "whim"}], "heads": [], "reason": ""},
        {"breaks": [{"at": 1, "reason": "seq", "x": 1}], "heads": [], "reason": ""},
        {"breaks": [], "heads": [{"seq": True, "hash": SHA}], "reason": ""},
        {"breaks": [], "heads": [{"seq": 1, "hash": "0x" + SHA}], "reason": ""},
        {"breaks": {}, "heads": [], "reason": ""},
    ],
)
def test_an_acceptance_has_one_form(accepts: Any) -> None:
    with pytest.raises(Invalid):
        read_server_line(server_line("adopt", {"accepts": accepts}))
    # In a file tenant it is somebody else's key, which means nothing.
    line = server_line("adopt", {"memory_id": "a", "content_sha256": SHA, "accepts": accepts})
    assert read_file_line(line).accepts is None


def test_on_the_server_an_acceptance_seals_no_record() -> None:
    accepts = {"breaks": [], "heads": [{"seq": 9, "hash": SHA}], "reason": "restored"}
    entry = read_server_line(server_line("adopt", {"accepts": accepts}))
    assert (entry.record, entry.seals) == (None, {})
    assert entry.accepts is not None
    assert entry.accepts.as_json() == accepts
