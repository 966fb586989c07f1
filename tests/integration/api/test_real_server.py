"""Over a real socket: bodies in chunks, lengths that lie, broken requests, clients that hang up, crowds."""

from __future__ import annotations

import resource
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from api.protocol import MAX_HEADER_BYTES, WholeAnswers, most_connections
from tests.support.served import Served, parsed, serving

LIMIT = 64 * 1024


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("home"), max_body_bytes=LIMIT) as running:
        yield running


@pytest.fixture(scope="module")
def key(served: Served) -> str:
    return served.new_key()


def _head(key: str, *lines: str) -> bytes:
    first = ["POST /v1/memory HTTP/1.1", "host: localhost", f"x-api-key: {key}", *lines]
    return "\r\n".join(first).encode() + b"\r\n\r\n"


def _total(served: Served, key: str) -> int:
    status, listed = served.request("GET", "/v1/memories/list?limit=1", headers=[("x-api-key", key)])
    assert status == 200
    return int(listed["total"])


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def test_a_body_in_chunks_is_read(served: Served, key: str) -> None:
    pieces = [_chunk(b'{"content"'), _chunk(b': "in '), _chunk(b'pieces"}'), b"0\r\n\r\n"]
    status, saved = parsed(served.raw(_head(key, "transfer-encoding: chunked"), *pieces))
    assert status == 201
    number = saved["memory_number"]
    _, one = served.request("GET", f"/v1/memory/{number}/decrypted", headers=[("x-api-key", key)])
    assert one["summary"] == "in pieces"


def test_a_body_in_chunks_over_the_limit_is_refused_on_the_way(served: Served, key: str) -> None:
    before = _total(served, key)
    pieces = [_chunk(b"x" * 16_000) for _ in range(5)]
    status, envelope = parsed(served.raw(_head(key, "transfer-encoding: chunked"), *pieces))
    assert (status, envelope["code"]) == (413, "too_large")
    assert _total(served, key) == before


def test_a_declared_length_over_the_limit_is_refused_at_once(served: Served, key: str) -> None:
    answer = served.raw(_head(key, f"content-length: {LIMIT + 1}"))
    assert parsed(answer)[0] == 413
    answer = served.raw(_head(key, "content-length: 99999999999999999999"))
    assert answer.startswith((b"HTTP/1.1 413", b"HTTP/1.1 400"))


def test_a_whole_body_over_the_limit_gets_its_answer(served: Served, key: str) -> None:
    body = b'{"content": "' + b"x" * (4 * LIMIT) + b'"}'
    status, envelope = served.request("POST", "/v1/memory", body, [("x-api-key", key)])
    assert (status, envelope["code"]) == (413, "too_large")


def test_a_length_that_promises_less_than_comes_cuts_the_body(served: Served, key: str) -> None:
    before = _total(served, key)
    answer = served.raw(_head(key, "content-length: 5") + b'{"content": "x"}')
    # What follows the body is no request, so the server may also refuse the connection as a whole.
    assert answer.startswith((b"HTTP/1.1 422", b"HTTP/1.1 400")), answer
    assert _total(served, key) == before


def test_a_client_that_promises_more_and_hangs_up_writes_nothing(served: Served, key: str) -> None:
    before = _total(served, key)
    for _ in range(5):
        served.raw(_head(key, "content-length: 100") + b'{"content": "x"}', close=True)
    time.sleep(0.1)
    assert _total(served, key) == before


@pytest.mark.parametrize(
    "request_line",
    [
        b"GARBAGE",
        b"GET",
        b"GET / HTTP/9.9",
        b"\x00\x01\x02",
        b"POST /v1/memory HTTP/1.1\r\ncontent-length: -1",
    ],
)
def test_what_is_no_http_is_no_500(served: Served, request_line: bytes) -> None:
    answer = served.raw(request_line + b"\r\n\r\n")
    assert not answer.startswith(b"HTTP/1.1 5"), answer
    assert served.request("GET", "/healthz")[0] == 200


def test_headers_of_any_bytes_are_no_500(served: Served) -> None:
    for value in ("ü".encode("latin-1"), b"\xff\xfe", b"x" * 8000):
        for name in (b"x-api-key", b"authorization", b"idempotency-key", b"host", b"origin"):
            request = b"GET /v1/memories HTTP/1.1\r\nhost: localhost\r\n" + name + b": " + value + b"\r\n\r\n"
            answer = served.raw(request)
            assert answer.startswith((b"HTTP/1.1 401", b"HTTP/1.1 400", b"HTTP/1.1 431")), answer[:100]


def test_many_requests_on_one_connection_are_answered_in_order(served: Served, key: str) -> None:
    requests = b"".join(
        f"GET /v1/memory/{number + 100_000} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\n\r\n".encode()
        for number in range(20)
    )
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
        connection.sendall(requests)
        answers = b""
        while answers.count(b'"details":{}}') < 20:
            answers += connection.recv(65536)
    found = [int(piece.split(b".")[0]) for piece in answers.split(b"There is no memory ")[1:]]
    assert found == [number + 100_000 for number in range(20)]


def test_writers_on_many_connections_get_numbers_without_gaps(served: Served) -> None:
    key = served.new_key()

    def save(number: int) -> int:
        body = f'{{"content": "memory {number}", "project": "p{number % 3}"}}'.encode()
        status, saved = served.request("POST", "/v1/memory", body, [("x-api-key", key)])
        assert status == 201
        return int(saved["memory_number"])

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(save, range(80))) == list(range(1, 81))


def test_a_head_without_an_end_is_not_kept(served: Served) -> None:
    for filler in (b"x-long: " + b"a" * (4 * MAX_HEADER_BYTES), b"x: y\r\n" * MAX_HEADER_BYTES):
        pieces = [filler[at : at + 16_384] for at in range(0, len(filler), 16_384)]
        answer = served.raw(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n", *pieces, pause_s=0.002)
        status, envelope = parsed(answer)
        assert (status, envelope["code"]) == (431, "too_large")
    fits = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: " + b"a" * (MAX_HEADER_BYTES // 2) + b"\r\n\r\n"
    assert parsed(served.raw(fits))[0] == 200


def test_what_is_no_http_is_told_in_the_shape_of_every_error(served: Served) -> None:
    status, envelope = parsed(served.raw(b"GARBAGE\r\n\r\n"))
    assert status == 400
    assert envelope == {
        "error": "Invalid HTTP request received.",
        "code": "invalid_http",
        "field": None,
        "details": {},
    }


def test_a_wish_for_a_websocket_is_answered_as_the_plain_request_it_is(served: Served) -> None:
    wish = b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    key = b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    answer = served.raw(b"GET /nowhere HTTP/1.1\r\nhost: localhost\r\n" + wish + key)
    status, envelope = parsed(answer)
    assert (status, envelope["code"]) == (404, "not_found")


class _Hasty(WholeAnswers):
    arrival_s = 0.3
    most = 4


@pytest.mark.parametrize("requests", [1, 3])
def test_a_client_that_ends_its_side_first_gets_its_answers(served: Served, key: str, requests: int) -> None:
    before = _total(served, key)
    body = b'{"content": "asked, and nothing more to say"}'
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
        connection.sendall((_head(key, f"content-length: {len(body)}") + body) * requests)
        connection.shutdown(socket.SHUT_WR)
        received = b"".join(iter(lambda: connection.recv(65536), b""))  # until the server hangs up
    assert received.count(b"HTTP/1.1 201") == requests
    assert _total(served, key) == before + requests


def test_slow_and_superfluous_clients_are_let_go(tmp_path: Path) -> None:
    with serving(tmp_path, http=_Hasty) as served:
        key = served.new_key()
        with ExitStack() as stack:
            slow = [
                stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=20))
                for _ in range(4)
            ]
            slow[1].sendall(b"GET /healthz HTTP/1.1\r\nx-")
            slow[2].sendall(_head(key, "content-length: 100") + b'{"content"')
            superfluous = served.raw(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
            status, envelope = parsed(superfluous)
            assert (status, envelope["code"]) == (503, "overloaded")
            for connection in slow:
                status, envelope = parsed(connection.recv(65536))
                assert (status, envelope["code"]) == (408, "too_slow")
        assert _total(served, key) == 0


def test_a_connection_at_rest_outlives_the_time_a_request_may_take(tmp_path: Path) -> None:
    with serving(tmp_path, http=_Hasty) as served:
        request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
        with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
            for pause in (0.6, 0.0):
                connection.sendall(request)
                assert connection.recv(65536).startswith(b"HTTP/1.1 200")
                time.sleep(pause)


def test_connections_leave_the_process_files_of_its_own() -> None:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert 32 <= most_connections() < files or files < 0


def test_only_this_machine_makes_accounts(served: Served) -> None:
    for header in [("origin", "https://example.org"), ("x-forwarded-for", "127.0.0.1"), ("via", "1.1 x")]:
        assert served.request("POST", "/v1/keys", headers=[header])[0] == 401
    rebound = b"POST /v1/keys HTTP/1.1\r\nhost: evil.example.org\r\ncontent-length: 0\r\n\r\n"
    assert parsed(served.raw(rebound))[0] == 401
    own = [("origin", f"http://localhost:{served.port}")]
    assert served.request("POST", "/v1/keys", headers=own)[0] == 201
