"""The landing page and the public verification page."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from api.answers import TEXT
from api.door import Answer, Call, Doors
from chainmemory import __version__
from chainmemory.engine import health, verification
from chainmemory.engine.shapes import Field, Record, Text
from chainmemory.errors import ChainMemoryError, NotFound

doors = Doors("Pages")

HERE: Final = Path(__file__).parent
HTML: Final = "text/html; charset=utf-8"
ON_A_PAGE: Final = 20
# No script at all, nothing from elsewhere, in nobody's frame.
_SAFE: Final = (
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
        b"frame-ancestors 'none'",
    ),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
)
_templates = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_STYLE: Final = (HERE / "static" / "style.css").read_bytes()
_ICON: Final = (HERE / "static" / "icon.svg").read_bytes()


def page(template: str, status: int = 200, **values: Any) -> Answer:
    """Return a rendered template as an answer that a browser can't be tricked with."""
    html = _templates.get_template(template).render(product_version=__version__, **values)
    return Answer(html.encode(), status=status, media=HTML, headers=_SAFE)


def wants_html(call: Call) -> bool:
    """Say whether the client is a browser: then errors are pages too."""
    return any(name == b"accept" and b"text/html" in value for name, value in call.headers)


def error_page(status: int, title: str, message: str) -> Answer:
    """Return an error as a page."""
    return page("error.html", status, title=title, message=message)


@doors.get(
    "/",
    needs="public",
    summary="Landing page",
    answer=TEXT,
    media=HTML,
    documented=False,
)
def landing(call: Call) -> Answer:
    parts = health.readiness(call.engine)
    try:
        stats: dict[str, Any] | None = health.stats(call.engine)
    except ChainMemoryError:
        stats = None  # the page says so; a person came to see what is wrong
    return page("landing.html", parts=parts.parts(), ready=parts.ready, stats=stats, base=call.base)


@doors.get(
    "/verify",
    needs="public",
    summary="The form's target: leads to the project's page",
    query=Record({"name": Text(1, 100)}),
    answer=TEXT,
    media=HTML,
    documented=False,
)
def verify_form(call: Call) -> Answer:
    name = (call.query["name"] or "").strip()
    if "/" in name:
        # No name has one, and in an address it would end the name.
        return error_page(404, "No such project", "A public name has no slash in it. Check the spelling.")
    place = f"/verify/{quote(name, safe='')}" if name else "/"
    return Answer(b"", status=303, media=HTML, headers=(*_SAFE, (b"location", place.encode())))


@doors.get(
    "/verify/{name}",
    needs="public",
    summary="A project's anchors, compared with the contract, as a page",
    description="The page of GET /v1/verify/{public_name}. Works without JavaScript.",
    params={"name": Text(1, 100)},
    query=Record({"cursor": Field(Text(1, 16, pattern="[0-9]+"), note="the page before's next_cursor")}),
    answer=TEXT,
    media="text/html",
    errors=(404,),
)
def verify_page(call: Call) -> Answer:
    try:
        found = verification.verify(
            call.engine,
            call.path["name"],
            limit=ON_A_PAGE,
            cursor=verification.read_cursor(call.query["cursor"]),
            base=call.base,
        )
    except NotFound as error:
        if not wants_html(call):
            raise
        return error_page(404, "No such project", f"{error.message} Check the spelling, or ask its owner.")
    return page("verify.html", found=found, own_call=verification.own_call(found))


@doors.get(
    "/static/style.css",
    needs="nothing",
    summary="The pages' style",
    answer=TEXT,
    media="text/css; charset=utf-8",
    documented=False,
)
async def style(_call: Call) -> Answer:
    return Answer(_STYLE, media="text/css; charset=utf-8", cache=b"public, max-age=3600")


@doors.get(
    "/static/icon.svg",
    needs="nothing",
    summary="The pages' icon",
    answer=TEXT,
    media="image/svg+xml",
    documented=False,
)
async def icon(_call: Call) -> Answer:
    return Answer(_ICON, media="image/svg+xml", headers=_SAFE, cache=b"public, max-age=3600")
