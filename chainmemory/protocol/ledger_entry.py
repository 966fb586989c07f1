"""One entry of the append-only ledger and its hash (protocol §5)."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

import orjson

from chainmemory.protocol.text import check_integer

GENESIS_PREV: Final = "0" * 64
"""`prev` of the first entry."""


# Of text and integers alone orjson writes the same bytes, ten times as fast.
_PLAIN: Final = frozenset({str, int})
# json.dumps would make an encoder for each call.
_FORM_C: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def ledger_form(value: Any) -> bytes:
    """Write a JSON value in form C: keys by code point, no spaces, UTF-8, floats as Python's repr."""
    if type(value) is dict and _PLAIN.issuperset(map(type, value.values())):
        try:
            return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        except TypeError:  # an integer of more than 64 bits, a key that isn't text, a lone surrogate
            pass
    return _FORM_C.encode(value).encode("utf-8")


def entry_hash(entry: dict[str, Any]) -> str:
    """Hash an entry (its own `hash`, if there, left out), 64 hex digits."""
    rest = entry
    if "hash" in entry:
        rest = {key: value for key, value in entry.items() if key != "hash"}
    return hashlib.sha256(ledger_form(rest)).hexdigest()


def make_entry(prev: str, seq: int, ts: str | float, op: str, **keys: Any) -> dict[str, Any]:
    """Make the entry after the one whose hash is `prev` (GENESIS_PREV for the first, where `seq` is 1).

    `ts` is a protocol time (server) or Unix seconds (file tenant); `keys` are what the entry seals.
    """
    entry = {"seq": check_integer(seq, "seq", 1), "ts": ts, "op": op, **keys, "prev": prev}
    entry["hash"] = entry_hash(entry)
    return entry


def save_entry(
    prev: str, seq: int, ts: str, *, memory_id: str, content_sha256: str, blob_sha256: str
) -> tuple[str, str]:
    """Return the hash of a server's `save` entry and the entry's text in form C, `hash` included.

    As `make_entry` and `ledger_form` do, ten times as fast: keys in order of code points, and no value that
    JSON would write any other way (hashes in 64 hex digits, a time, a number as `memory_id`).
    """
    before = f'{{"blob_sha256":"{blob_sha256}","content_sha256":"{content_sha256}",'
    after = f'"memory_id":"{memory_id}","op":"save","prev":"{prev}","seq":{seq},"ts":"{ts}"}}'
    digest = hashlib.sha256((before + after).encode("ascii")).hexdigest()
    return digest, f'{before}"hash":"{digest}",{after}'
