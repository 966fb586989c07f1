"""Keys in headers, and who surely sits at this machine (api.md, POST /v1/keys)."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.auth import bearer_in, check_may_create_accounts, from_this_machine, key_in
from chainmemory.errors import Unauthorized
from chainmemory.settings import Settings

HOST = (b"host", b"localhost:8420")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load(home=tmp_path)


def test_the_key_is_found_in_either_header() -> None:
    assert key_in({b"x-api-key": b"aic_1"}) == "aic_1"
    assert key_in({b"authorization": b"Bearer aic_2"}) == "aic_2"
    assert key_in({b"authorization": b"bearer  aic_2 "}) == "aic_2"
    assert key_in({b"x-api-key": b"aic_1", b"authorization": b"Bearer aic_2"}) == "aic_1"


@pytest.mark.parametrize("value", [b"", b"Bearer", b"Bearer ", b"Basic abc", b"aic_2"])
def test_other_authorization_holds_no_key(value: bytes) -> None:
    assert bearer_in({b"authorization": value}) is None
    assert key_in({b"authorization": value}) is None


@pytest.mark.parametrize(
    "host", [b"localhost", b"LOCALHOST:1", b"127.0.0.1", b"127.0.0.1:65535", b"[::1]", b"[::1]:8420"]
)
@pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.9.10", "::1"])
def test_a_program_of_this_machine_may_create_accounts(settings: Settings, host: bytes, peer: str) -> None:
    check_may_create_accounts([(b"host", host)], peer, settings)


def test_a_page_of_this_very_server_may_too(settings: Settings) -> None:
    assert from_this_machine([HOST, (b"origin", b"http://localhost:8420")], "127.0.0.1", settings)


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"host", b"")],
        [(b"host", b"example.org")],
        [(b"host", b"localhost.example.org")],
        [(b"host", b"127.0.0.1.example.org:8420")],
        [(b"host", b"127.0.0.2")],
        [(b"host", b"localhost:8420@example.org")],
        [(b"host", b"localhost:x")],
        [(b"host", b"::1")],
        [HOST, HOST],
        [(b"host", b"example.org"), HOST],
        [HOST, (b"origin", b"null")],
        [HOST, (b"origin", b"https://example.org")],
        [HOST, (b"origin", b"http://localhost:3000")],
        [HOST, (b"origin", b"http://127.0.0.1:8420")],
        [HOST, (b"origin", b"http://localhost:8420"), (b"origin", b"http://example.org")],
        [HOST, (b"origin", b"")],
        [HOST, (b"forwarded", b"for=192.0.2.1")],
        [HOST, (b"x-forwarded-for", b"127.0.0.1")],
        [HOST, (b"x-forwarded-proto", b"https")],
        [HOST, (b"x-forwarded-", b"")],
        [HOST, (b"x-real-ip", b"127.0.0.1")],
        [HOST, (b"via", b"1.1 proxy")],
    ],
)
def test_whatever_may_come_from_elsewhere_needs_the_admin_token(
    settings: Settings, headers: list[tuple[bytes, bytes]]
) -> None:
    with pytest.raises(Unauthorized):
        check_may_create_accounts(headers, "127.0.0.1", settings)


@pytest.mark.parametrize("peer", ["192.0.2.1", "10.0.0.1", "::ffff:192.0.2.1", "2001:db8::1", "", "?", None])
def test_a_peer_elsewhere_needs_the_admin_token(settings: Settings, peer: str | None) -> None:
    with pytest.raises(Unauthorized):
        check_may_create_accounts([HOST], peer, settings)


def test_a_server_that_others_can_reach_needs_the_admin_token(tmp_path: Path) -> None:
    settings = Settings.load(home=tmp_path, host="0.0.0.0", admin_token="correct horse")
    with pytest.raises(Unauthorized):
        check_may_create_accounts([HOST], "127.0.0.1", settings)
    for wrong in (b"Bearer wrong", b"Bearer correct hors", b"Basic correct horse", b"Bearer \xff"):
        with pytest.raises(Unauthorized):
            check_may_create_accounts([HOST, (b"authorization", wrong)], "192.0.2.1", settings)
    check_may_create_accounts([HOST, (b"authorization", b"Bearer correct horse")], "192.0.2.1", settings)
    check_may_create_accounts([(b"x-admin-token", b"correct horse")], "192.0.2.1", settings)


def test_an_empty_admin_token_opens_nothing(tmp_path: Path) -> None:
    settings = Settings.load(home=tmp_path, host="0.0.0.0", admin_token="")
    for headers in ([], [(b"authorization", b"Bearer ")], [(b"x-admin-token", b"")]):
        with pytest.raises(Unauthorized):
            check_may_create_accounts(headers, "192.0.2.1", settings)
