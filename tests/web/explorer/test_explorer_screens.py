"""The explorer in Chromium: on a desk and on a phone, with and without JavaScript, in light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from chainmemory.chain.artifacts import MEMORY_REGISTRY
from tests.support.explorer import SCRIPT, World

pytestmark = pytest.mark.chromium

DESK, PHONE = (1200, 900), (360, 740)
WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
SMALL = """() => [...document.querySelectorAll('main *')]
    .filter((one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
    .filter((one) => one.getBoundingClientRect().height > 0)
    .filter((one) => parseFloat(getComputedStyle(one).fontSize) < 12)
    .map((one) => one.outerHTML.slice(0, 80))"""


def pages(world: World) -> dict[str, str]:
    """Every kind of page, the worst of each included."""
    anchor = world.http.get("/v1/verify/payments").json()["anchors"][0]
    memory = world.memories[3]["event_hash"]
    return {
        "home": "/explorer",
        "blocks": "/explorer/blocks",
        "block": f"/explorer/block/{anchor['block_number']}",
        "genesis": "/explorer/block/0",
        "anchoring": f"/explorer/tx/{anchor['tx_hash']}",
        "recording": f"/explorer/tx/{world.app.site.engine.explorer.memory(memory, None).log.tx_hash}",  # type: ignore[union-attr]
        "reverted": f"/explorer/tx/{world.hostile['reverts']}",
        "refused": f"/explorer/tx/{world.hostile['may not write']}",
        "bomb": f"/explorer/tx/{world.hostile['bomb']}",
        "raw logs": f"/explorer/tx/{world.hostile['logs anything']}",
        "project": "/explorer/project/payments",
        "namesake": f"/explorer/project/{world.namesake_id}",
        "memory": f"/explorer/memory/{memory}",
        "contract": f"/explorer/address/{world.addresses[MEMORY_REGISTRY]}",
        "search": "/explorer/search?q=" + "x" * 200,
        "missing": "/explorer/block/" + "%F0%9F%99%82" * 60,
        "landing": "/",
        "verify": "/verify/payments",
    }


@contextmanager
def tab(
    chromium: Browser, world: World, size: tuple[int, int], *, scripts: bool, dark: bool = False
) -> Iterator[Page]:
    """Open a tab that fails on leaving if the page complained, ran something, or loaded from elsewhere."""
    complaints: list[str] = []
    context = chromium.new_context(
        viewport={"width": size[0], "height": size[1]},
        java_script_enabled=scripts,
        color_scheme="dark" if dark else "light",
        base_url=str(world.http.base_url),
    )
    page = context.new_page()
    # A page that is answered with 404 is said to be by the browser; anything else is a complaint.
    page.on(
        "console", lambda said: complaints.append(said.text) if "status of 404" not in said.text else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    origin = str(world.http.base_url).rstrip("/")
    page.on("request", lambda one: None if one.url.startswith(origin) else complaints.append(one.url))
    yield page
    context.close()
    assert not complaints


@pytest.mark.parametrize(("size", "dark"), [(DESK, False), (PHONE, True)], ids=["desk-light", "phone-dark"])
def test_every_page_fits_paints_and_can_be_read(
    chromium: Browser, world: World, shots: Path, size: tuple[int, int], dark: bool
) -> None:
    """No sideways scroll, also with everything unfolded; text of 12 pixels at least and a contrast of 4.5."""
    contrast = (Path(__file__).parent / "contrast.js").read_text()
    with tab(chromium, world, size, scripts=True, dark=dark) as page:
        for name, path in pages(world).items():
            page.goto(path)
            shot = shots / f"explorer-{size[0]}-{name.replace(' ', '-')}.png"
            assert len(page.screenshot(path=shot)) > 8_000, f"{name} is blank"
            page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            for width in (size[0], 820, 700):
                page.set_viewport_size({"width": width, "height": size[1]})
                wide = page.evaluate(WIDE)
                assert wide <= 0, f"{name} is {wide} pixels too wide at {width}"
            page.set_viewport_size({"width": size[0], "height": size[1]})
            assert page.locator("h1").count() == page.locator("main").count() == 1, name
            assert page.evaluate("document.documentElement.lang") == "en"
            assert page.evaluate(SMALL) == [], name
            assert page.evaluate(contrast) == [], name


def test_the_chain_can_be_walked_without_javascript(chromium: Browser, world: World) -> None:
    """From the front page to a block, its transaction, the project it anchored, and that project's past."""
    with tab(chromium, world, PHONE, scripts=False) as page:
        page.goto("/explorer")
        page.get_by_role("link", name="payments", exact=True).click()
        expect(page.locator("h1")).to_have_text("payments")
        expect(page.get_by_text("✓ The contract agrees")).to_be_visible()
        page.get_by_role("link", name="Older →").click()
        expect(page.get_by_text("All 5 versions")).to_be_visible()
        page.locator("tbody a.short").first.click()
        expect(page.locator("h1")).to_have_text("Transaction")
        expect(page.get_by_text("✓ Succeeded")).to_be_visible()
        page.get_by_role("link", name="Block", exact=False).first.click()
        expect(page.get_by_text("✓ Sealed by an authority")).to_be_visible()
        page.locator("a[rel=prev]").first.click()
        expect(page.locator("h1")).to_contain_text("Block")


def test_a_search_without_javascript_finds_a_memory(chromium: Browser, world: World) -> None:
    memory = world.memories[11]
    with tab(chromium, world, PHONE, scripts=False) as page:
        page.goto("/explorer")
        box = page.get_by_label("Search the chain")
        box.fill(f"  {memory['event_hash'].upper().replace('0X', '0x')}  ")
        box.press("Enter")
        expect(page.get_by_text("✓ Recorded")).to_be_visible()
        expect(page.get_by_text("✓ The root holds.")).to_be_visible()
        proof = page.locator("summary", has_text="of 6")
        proof.click()
        expect(page.locator("ol.elements > li").first).to_be_visible()


def test_markup_that_is_searched_for_is_text(chromium: Browser, world: World) -> None:
    with tab(chromium, world, DESK, scripts=True) as page:
        page.goto("/explorer")
        page.get_by_label("Search the chain").fill(SCRIPT)
        page.get_by_role("button", name="Search").click()
        expect(page.locator("q.said")).to_contain_text('<script>alert("x")</script>\\u202egnp.exe')
        page.goto(f"/explorer/tx/{world.hostile['reverts']}")
        expect(page.locator("q.said")).to_contain_text('<script>alert("x")</script>\\u202egnp.exe')


def test_the_keyboard_alone_is_enough(chromium: Browser, world: World) -> None:
    with tab(chromium, world, DESK, scripts=True) as page:
        page.goto("/explorer")
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
        expect(page.get_by_role("link", name="Skip to the content")).to_be_in_viewport()
        for _ in range(5):
            page.keyboard.press("Tab")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"
