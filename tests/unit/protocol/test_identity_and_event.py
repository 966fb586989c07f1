"""Identifiers and the checks on each key of an event header (protocol §2, §3)."""

from __future__ import annotations

from typing import Any

import pytest

from chainmemory.errors import Invalid
from chainmemory.protocol.event import CATEGORIES, build_header, event_hash
from chainmemory.protocol.hashing import ZERO, hex32, parse_hex32, tagged_hash
from chainmemory.protocol.identity import account_ref, check_slug, ledger_id, project_id

ACCOUNT = "fe63c0c224ed9e23ad0785954f0668f7"
TIME = "2026-09-13T22:02:35.000000Z"
HEADER: dict[str, Any] = {
    "account_id": ACCOUNT,
    "number": 1,
    "project": None,
    "kind": "memory.note",
    "category": "INTERACTION",
    "importance": 5,
    "source": "api",
    "subject": None,
    "provenance": None,
    "occurred_at": TIME,
    "recorded_at": TIME,
    "content_type": "text/plain",
    "content_length": 0,
    "content_hash": ZERO,
    "sealed_by": "server",
    "salt": ZERO,
}


@pytest.mark.parametrize("name", ["a", "0", "a.b_c-d", "x" * 64, "1-2"])
def test_slug(name: str) -> None:
    assert check_slug(name) == name


@pytest.mark.parametrize(
    "name", ["", "A", "-a", ".a", "_a", "x" * 65, "a b", "ä", "a/b", "a\n", "٣", None, 5]
)
def test_no_slug(name: Any) -> None:
    with pytest.raises(Invalid):
        check_slug(name)
    with pytest.raises(Invalid):
        project_id(ACCOUNT, name)


@pytest.mark.parametrize(
    "account", ["", ACCOUNT.upper(), ACCOUNT[:-1], ACCOUNT + "0", "0x" + ACCOUNT[2:], None]
)
def test_no_account_id(account: Any) -> None:
    for derive in (account_ref, ledger_id):
        with pytest.raises(Invalid):
            derive(account)


def test_hashes_of_different_domains_differ() -> None:
    assert (
        len({account_ref(ACCOUNT), ledger_id(ACCOUNT), project_id(ACCOUNT, "a"), project_id(ACCOUNT, "b")})
        == 4
    )
    assert tagged_hash("AB", b"C") != tagged_hash("A", b"BC")


@pytest.mark.parametrize(
    "text", ["", "0x", ZERO[2:], ZERO.replace("x", "X"), ZERO + "0", "0x" + "G" * 64, None, 5]
)
def test_no_hex32(text: Any) -> None:
    with pytest.raises(Invalid):
        parse_hex32(text)
    with pytest.raises(Invalid):
        parse_hex32("0x" + "A" * 64)


def test_hex32() -> None:
    assert parse_hex32(hex32(bytes(range(32)))) == bytes(range(32))
    with pytest.raises(ValueError, match="32 bytes"):
        hex32(b"short")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("category", category) for category in CATEGORIES),
        ("importance", 1),
        ("importance", 10),
        ("number", 2**53 - 1),
        ("project", "payment-system"),
        ("kind", "e\u0301 ✓ \U0001f600  "),
        ("source", " "),
        ("subject", {"type": "user", "id": "cust-7"}),
        ("provenance", {"agent_id": "cc", "run_id": ""}),
        ("content_type", "application/json"),
        ("sealed_by", "client"),
        ("content_length", 2**40),
    ],
)
def test_header_takes(key: str, value: Any) -> None:
    header = build_header(**{**HEADER, key: value})
    assert header == {**HEADER, key: value}
    assert header[key] == value
    assert key == "category" or event_hash(header) != event_hash(build_header(**HEADER))


def test_an_empty_provenance_becomes_null() -> None:
    assert build_header(**{**HEADER, "provenance": {}}) == HEADER


def test_unicode_is_never_normalised() -> None:
    composed, decomposed = ({**HEADER, "kind": kind} for kind in ("\u00e9", "e\u0301"))
    assert event_hash(build_header(**composed)) != event_hash(build_header(**decomposed))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("account_id", "x"),
        ("number", 0),
        ("number", True),
        ("number", 1.0),
        ("number", "1"),
        ("number", 2**53),
        ("project", "Not A Slug"),
        ("project", ""),
        ("kind", ""),
        ("kind", None),
        ("kind", "\x00"),
        ("kind", "\ud800"),
        ("kind", "x" * 1001),
        ("category", "decision"),
        ("category", None),
        ("importance", 0),
        ("importance", 11),
        ("importance", 5.0),
        ("importance", True),
        ("source", ""),
        ("source", 5),
        ("subject", {}),
        ("subject", {"type": "user"}),
        ("subject", {"type": "user", "id": "7", "name": "x"}),
        ("subject", {"type": "", "id": "7"}),
        ("subject", {"type": "user", "id": 7}),
        ("subject", "user"),
        ("provenance", []),
        ("provenance", {"Agent": "x"}),
        ("provenance", {"1a": "x"}),
        ("provenance", {"a" * 65: "x"}),
        ("provenance", {"agent_id\n": "x"}),
        ("provenance", {"agent_id": None}),
        ("provenance", {"agent_id": 5}),
        ("provenance", {"agent_id": "\x00"}),
        ("provenance", {"agent_id": "\udfff"}),
        ("provenance", {f"k{n}": "x" for n in range(65)}),
        ("occurred_at", "2026-09-13T22:02:35Z"),
        ("occurred_at", "2026-09-13T22:02:35.000000+00:00"),
        ("occurred_at", None),
        ("recorded_at", "now"),
        ("content_type", "text/html"),
        ("content_length", -1),
        ("content_length", 1.5),
        ("content_hash", "0x00"),
        ("content_hash", None),
        ("sealed_by", "nobody"),
        ("salt", ZERO[2:]),
    ],
)
def test_header_refuses(key: str, value: Any) -> None:
    with pytest.raises(Invalid) as caught:
        build_header(**{**HEADER, key: value})
    assert caught.value.code == "invalid_value"
    if key not in ("occurred_at", "recorded_at"):
        assert str(caught.value.field).startswith(key)


@pytest.mark.parametrize("key", HEADER)
def test_every_key_is_in_the_hash(key: str) -> None:
    changed = {**HEADER, key: "something else"}
    assert event_hash(changed) != event_hash(HEADER)
