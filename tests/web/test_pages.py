"""The landing page and /verify/{name} in a real Chromium: no script, on a phone, under a strict policy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.support.api import use_chain
from tests.support.chains import TesterChain
from tests.support.rounds import drain
from tests.support.served import Served, serving

pytestmark = pytest.mark.chromium

PHONE = {"width": 360, "height": 740}
DESK = {"width": 1280, "height": 900}


@dataclass
class Seen:
    """A page, and what went wrong while it was shown."""

    page: Page
    trouble: list[str] = field(default_factory=list)

    def open(self, url: str) -> int:
        answer = self.page.goto(url)
        assert answer is not None
        return answer.status

    def fits(self) -> None:
        """Check that nothing has to be scrolled sideways."""
        wide = self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, f"{wide} px too wide"


def _look(chromium: Browser, size: dict[str, int], *, dark: bool = False, script: bool = False) -> Seen:
    context = chromium.new_context(
        viewport=size, color_scheme="dark" if dark else "light", java_script_enabled=True
    )
    seen = Seen(context.new_page())
    seen.page.on("console", lambda message: seen.trouble.append(f"{message.type}: {message.text}"))
    seen.page.on("pageerror", lambda error: seen.trouble.append(str(error)))
    seen.page.on("requestfailed", lambda request: seen.trouble.append(f"failed: {request.url}"))
    if not script:
        # Playwright needs JavaScript to measure; the pages get none of it through their own policy.
        seen.page.on("request", lambda request: _no_script(seen, request))
    return seen


def _no_script(seen: Seen, request: Any) -> None:
    if request.resource_type == "script":
        seen.trouble.append(f"script: {request.url}")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """An API with a project that is anchored, one that differs, one that waits, one that is empty."""
    with serving(tmp_path_factory.mktemp("home")) as running:
        worker = use_chain(running, TesterChain())
        key = running.new_key()

        def call(path: str, body: Any) -> None:
            status, told = running.request("POST", path, json.dumps(body).encode(), [("x-api-key", key)])
            assert status < 300, told

        call("/v1/memory", {"content": "Use Clique PoA consensus", "project": "payments"})
        for number in range(23):
            call(
                "/v1/project/payments/state/ops",
                {"ops": [{"op": "set_phase", "phase": f"phase {number}", "evidence_memory_ids": [1]}]},
            )
        call("/v1/project/altered/state/ops", {"ops": [{"op": "set_phase", "phase": "x"}]})
        drain(worker)
        _alter(running)
        call("/v1/project/waiting/state/ops", {"ops": [{"op": "set_phase", "phase": "x"}]})
        call("/v1/projects", {"project_id": "empty"})
        yield running


def _alter(served: Served) -> None:
    from sqlalchemy import create_engine, text

    engine = create_engine(served.engine.settings.store_url)
    with engine.begin() as connection:
        changed = connection.execute(
            text(
                "UPDATE state_versions SET state_hash = :h WHERE project_id IN "
                "(SELECT project_id FROM projects WHERE slug = 'altered')"
            ),
            {"h": "0x" + "ab" * 32},
        )
        assert changed.rowcount == 1
    engine.dispose()


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("payments", "✓ Verified"),
        ("altered", "✗ Differs"),
        ("waiting", "? Not decided"),
        ("empty", "? Not decided"),
    ],
)
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_the_verdict_is_the_first_thing_to_see(
    served: Served, chromium: Browser, shots: Path, name: str, verdict: str, size: dict[str, int]
) -> None:
    seen = _look(chromium, size)
    assert seen.open(f"{served.url}/verify/{name}") == 200
    heading = seen.page.locator(".verdict h2")
    assert heading.inner_text() == verdict
    box = heading.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < size["height"]
    seen.fits()
    assert seen.trouble == []
    seen.page.screenshot(path=shots / f"verify-{name}-{size['width']}.png", full_page=True)
    seen.page.context.close()


def test_the_page_tells_what_the_api_tells(served: Served, chromium: Browser) -> None:
    _, found = served.request("GET", "/v1/verify/payments?limit=20")
    seen = _look(chromium, DESK)
    seen.open(f"{served.url}/verify/payments")
    text = seen.page.inner_text("main")
    for piece in (
        found["latest_state_hash"],
        found["project_id"],
        found["chain"]["contract"],
        str(found["chain"]["chainId"]),
        found["anchors"][0]["tx_hash"],
        "witness: self",
    ):
        assert piece in text
    block = str(found["anchors"][0]["block_number"])
    link = seen.page.get_by_role("link", name=block, exact=True).first
    assert link.get_attribute("href") == f"/explorer/block/{block}"
    assert seen.page.locator("tbody tr").count() == 20
    seen.page.get_by_text("Older versions").click()
    assert seen.page.locator("tbody tr").count() == 3
    assert seen.page.locator("tbody td").first.inner_text() == "3"
    seen.page.context.close()


def test_the_command_on_the_page_asks_the_contract(served: Served, chromium: Browser) -> None:
    """What a sceptic copies from the page gives the hash the page says it must give."""
    seen = _look(chromium, DESK)
    seen.open(f"{served.url}/verify/payments")
    command = seen.page.locator("pre").first.inner_text()
    request = json.loads(command.split(" -d '")[1].rsplit("'", 1)[0])
    call, block = request["params"]
    assert (request["method"], block) == ("eth_call", "latest")
    contracts = served.engine.chain.contracts()
    answer = contracts.anchors._gateway.call(call["to"], bytes.fromhex(call["data"][2:]))
    assert "0x" + answer.hex() in seen.page.inner_text("main")
    assert "0x" + answer.hex() == served.request("GET", "/v1/verify/payments")[1]["latest_state_hash"]
    seen.page.context.close()


def test_a_name_is_looked_up_from_the_landing_page(served: Served, chromium: Browser, shots: Path) -> None:
    for size, dark in ((PHONE, False), (DESK, True)):
        seen = _look(chromium, size, dark=dark)
        assert seen.open(served.url) == 200
        assert "A memory that can be proved" in seen.page.inner_text("h1")
        assert f"{served.url}/v1/keys" in seen.page.inner_text("main")
        seen.fits()
        seen.page.screenshot(path=shots / f"landing-{size['width']}.png", full_page=True)
        seen.page.get_by_label("Project").fill("payments")
        seen.page.get_by_role("button", name="Verify").click()
        assert seen.page.url == f"{served.url}/verify/payments"
        assert seen.page.locator(".verdict h2").inner_text() == "✓ Verified"
        assert seen.trouble == []
        seen.page.context.close()


def test_an_unknown_project_is_a_page_that_says_so(served: Served, chromium: Browser, shots: Path) -> None:
    seen = _look(chromium, PHONE)
    assert seen.open(f"{served.url}/verify/nobody") == 404
    assert seen.page.inner_text("h1") == "No such project"
    seen.fits()
    seen.page.screenshot(path=shots / "verify-nobody.png")
    hostile = '"><img src=x onerror=alert(1)><script>alert(1)</script>'
    seen.page.get_by_label("Project").fill(hostile)
    seen.page.get_by_role("button", name="Verify").click()
    assert seen.page.inner_text("h1") == "No such project"
    assert seen.page.locator("img").count() == seen.page.locator("script").count() == 0
    assert [line for line in seen.trouble if "404" not in line] == []
    seen.page.context.close()


def test_nothing_from_elsewhere_can_run_or_frame_the_pages(served: Served) -> None:
    for path in ("/", "/verify/payments", "/verify/nobody"):
        answer = served.raw(f"GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: text/html\r\n\r\n".encode())
        head = answer.split(b"\r\n\r\n")[0].lower()
        assert b"content-security-policy: default-src 'none'; style-src 'self'" in head
        assert b"frame-ancestors 'none'" in head
        assert b"script-src" not in head
        assert b"x-frame-options: deny" in head
        assert b"<script" not in answer
        assert b"://" not in answer.split(b"<link")[1].split(b">")[0]


def test_without_a_chain_the_page_says_that_nothing_was_compared(
    tmp_path: Path, chromium: Browser, shots: Path
) -> None:
    with serving(tmp_path) as served:
        key = served.new_key()
        body = json.dumps({"ops": [{"op": "set_phase", "phase": "x"}]}).encode()
        served.request("POST", "/v1/project/p/state/ops", body, [("x-api-key", key)])
        seen = _look(chromium, PHONE)
        assert seen.open(f"{served.url}/verify/p") == 200
        assert seen.page.locator(".verdict h2").inner_text() == "? Not decided"
        assert "can’t be reached" in seen.page.inner_text("main")
        seen.open(served.url)
        assert "This server isn’t ready" in seen.page.inner_text("main")
        seen.page.screenshot(path=shots / "landing-not-ready.png", full_page=True)
        seen.page.context.close()
