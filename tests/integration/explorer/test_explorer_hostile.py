"""What strangers put on the chain or into an address: shown, never believed, never run, never a crash."""

from __future__ import annotations

import html
import re
import time
from html.parser import HTMLParser
from urllib.parse import quote

import httpx
import pytest

from chainmemory.chain.artifacts import STATE_ANCHOR
from tests.support.explorer import SCRIPT, World

CSP = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
ODD = [
    "0",
    "-1",
    "1e9",
    "0x",
    "9" * 18,
    "9" * 19,
    "9" * 400,
    str(2**63),
    "latest",
    "٣",
    "\u202e0x12",
    "🙂" * 40,
    "a\x00b",
    "a\nb\r\nx: y",
    "%",
    "%2e%2e%2f",
    "{{7*7}}",
    "' OR 1=1 --",
    '"><img src=x onerror=alert(1)>',
    SCRIPT,
    "0x" + "0" * 64,
    "0x" + "f" * 64,
    "0X" + "F" * 40,
    "0x" + "0" * 40,
    "0x" + "f" * 65,
    "x" * 3_000,
]
PLACES = ["block", "tx", "project", "memory", "address"]


class Harmless(HTMLParser):
    """Fails at markup that runs, loads, or leads elsewhere."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "style", "iframe", "object", "embed", "img", "base"), tag
        for name, value in attrs:
            assert not name.startswith("on"), name
            assert name != "style"
            if name in ("href", "src", "action"):
                assert value is not None
                assert value.startswith(("/", "#")), value
                assert not value.startswith("//"), value


def check_safe(answer: httpx.Response) -> None:
    """A page of ours, whatever was asked: no crash, strict headers, no markup of a stranger's."""
    assert answer.status_code in (200, 303, 404), f"{answer.status_code} {answer.url} {answer.text[:200]}"
    check_headers(answer)
    Harmless().feed(answer.text)
    assert "\u202e" not in answer.text
    assert "\x00" not in answer.text


def check_headers(answer: httpx.Response) -> None:
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"] == CSP
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
def test_odd_names_are_never_a_crash(world: World, odd: str) -> None:
    for place in PLACES:
        answer = world.page(f"/explorer/{place}/{quote(odd, safe='')}")
        if "/" in odd and answer.headers["content-type"] == "application/json":
            # A slash in a name is a deeper address than the explorer has.
            assert answer.status_code == 404
            continue
        check_safe(answer)
    check_safe(world.page("/explorer/search", q=odd))


@pytest.mark.parametrize("odd", [*ODD[:12], "٣", "🙂", "1\n", SCRIPT], ids=range(16))
def test_odd_places_in_lists_are_never_a_crash(world: World, odd: str) -> None:
    for path in ("/explorer/blocks", "/explorer/block/1", "/explorer/project/payments"):
        check_safe(world.page(path, **{"from": odd}))
    check_safe(world.page("/explorer/project/payments", until=odd))
    check_safe(world.page(f"/explorer/memory/{world.memories[0]['event_hash']}", until=odd))
    check_safe(world.page(f"/explorer/address/{world.addresses[STATE_ANCHOR]}", until=odd))


@pytest.mark.parametrize(
    "raw", ["q=%ff%fe", "q=%ed%a0%80", "q=a&q=b", "from=1&from=2", "&".join("abcdef" * 40), "q"]
)
def test_odd_queries_are_pages(world: World, raw: str) -> None:
    for path in ("/explorer/search", "/explorer/blocks"):
        answer = world.http.get(f"{path}?{raw}")
        check_safe(answer)


@pytest.mark.parametrize(
    "path", ["/explorer/block/%ff%fe", "/explorer/%ed%a0%80", "/explorer/%00", "/explorer/block/%0a"]
)
def test_paths_that_are_no_text_are_pages(world: World, path: str) -> None:
    answer = world.http.get(path)
    check_safe(answer)
    assert answer.status_code == 404


@pytest.mark.parametrize("path", ["/explorer", "/explorer/tx/0x12", "/explorer/none/such"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_another_method_is_refused_by_a_page(world: World, method: str, path: str) -> None:
    answer = world.http.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    assert "Nothing can be sent here" in answer.text
    check_headers(answer)


def test_a_head_has_the_headers_and_no_body(world: World) -> None:
    answer = world.http.head("/explorer")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-security-policy"] == CSP


def test_what_is_typed_comes_back_as_text(world: World) -> None:
    page = world.page("/explorer/search", q=SCRIPT).text
    assert "&lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt;\\u202egnp.exe" in page


def test_a_strangers_revert_reason_is_quoted_with_nothing_hidden(world: World) -> None:
    answer = world.page(f"/explorer/tx/{world.hostile['reverts']}")
    check_safe(answer)
    assert "✗ Failed" in answer.text
    assert "&lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt;\\u202egnp.exe" in answer.text
    assert "isn’t decoded" in answer.text


def test_a_revert_that_is_no_error_of_ours_is_not_made_up(world: World) -> None:
    answer = world.page(f"/explorer/tx/{world.hostile['reverts oddly']}")
    check_safe(answer)
    assert "✗ Failed" in answer.text


def test_an_event_forged_by_another_contract_is_not_believed(world: World) -> None:
    """Anybody can log what looks like our anchor; only our contract's code makes it one."""
    answer = world.page(f"/explorer/tx/{world.hostile['forges an event']}")
    check_safe(answer)
    assert "Not decoded" in answer.text
    assert "another contract’s" in html.unescape(answer.text)
    assert "<code>StateAnchored</code>" not in answer.text
    assert "topic 3" in answer.text
    project = world.text("/explorer/project/payments")
    assert '<span class="strong">99</span>' not in project


def test_logs_of_any_bytes_are_shown_raw(world: World) -> None:
    answer = world.page(f"/explorer/tx/{world.hostile['logs anything']}")
    check_safe(answer)
    assert "0x" + "ee" * 32 in answer.text
    assert SCRIPT.encode().hex()[:64] in answer.text


def test_a_refused_writer_is_told_by_the_contracts_own_error(world: World) -> None:
    page = world.text(f"/explorer/tx/{world.hostile['may not write']}")
    assert "Call: <code>record</code>" in page
    assert "AccessControlUnauthorizedAccount(account 0x" in page
    assert "firstNumber" in page


def test_an_unknown_call_to_our_contract_is_shown_raw(world: World) -> None:
    page = world.text(f"/explorer/tx/{world.hostile['unknown call']}")
    assert "has no function that this data calls" in page
    assert "deadbeef" in page


def test_calldata_that_names_a_million_values_costs_a_page_and_no_more(world: World) -> None:
    path = f"/explorer/tx/{world.hostile['bomb']}"
    world.page(path)
    started = time.monotonic()
    answer = world.page(path)
    check_safe(answer)
    assert answer.status_code == 200
    assert "1,000 elements" in answer.text
    assert len(answer.content) < 400_000
    assert time.monotonic() - started < 5


def test_the_static_files_are_what_they_say(world: World) -> None:
    style = world.http.get("/static/style.css")
    assert style.headers["content-type"] == "text/css; charset=utf-8"
    assert "url(" not in style.text
    assert "@import" not in style.text
    icon = world.http.get("/static/icon.svg")
    assert icon.headers["content-type"] == "image/svg+xml"
    assert icon.headers["content-security-policy"] == CSP


def test_no_page_loads_anything_from_elsewhere(world: World) -> None:
    for path in ("/explorer", "/explorer/block/1", "/explorer/project/payments", "/", "/verify/payments"):
        page = world.text(path)
        loaded = re.findall(r'<(?:link|img|iframe|object|embed|source)[^>]*(?:href|src)="([^"]*)"', page)
        assert loaded
        assert all(place.startswith("/static/") for place in loaded), loaded
