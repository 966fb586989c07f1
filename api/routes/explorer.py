"""The explorer's pages (GET /explorer…): HTML for people, from any node's chain, without JavaScript."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from api.answers import TEXT
from api.door import Answer, Call, Doors
from api.errors import MethodNotAllowed, headers_of, status_of
from api.web.look import UI
from api.web.pages import HTML, page
from chainmemory.engine.explorer import names
from chainmemory.engine.explorer.text import readable
from chainmemory.engine.shapes import Record
from chainmemory.errors import ChainMemoryError, Invalid, NotFound, RateLimited, Unavailable
from chainmemory.logging import log

doors = Doors("Explorer")

RETRY_AFTER: Final = b"5"
_CHAIN_CODES: Final = {"chain_unavailable", "chain_slow", "chain_garbled"}

Handler = Callable[[Call], Any]


class Written:
    """A query's value as it was written; the page itself judges it."""

    def check(self, value: Any, path: str) -> str:  # noqa: ARG002 - the signature is Kind's
        return str(value)

    def read(self, text: str, path: str) -> str:
        return self.check(text, path)

    def schema(self) -> dict[str, Any]:
        return {"type": "string"}


def refuse(error: ChainMemoryError) -> Answer:
    """Tell an error as a page that says what to do."""
    status = status_of(error)
    if isinstance(error, NotFound | Invalid):
        return page("explorer/missing.html", 404, ui=UI, said=error.message)
    if isinstance(error, MethodNotAllowed):
        answer = page("explorer/trouble.html", status, ui=UI, kind="method", wait=None)
        answer.headers = (*answer.headers, *headers_of(error))
        return answer
    if isinstance(error, RateLimited):
        wait = int(error.details.get("retry_after", 1))
        answer = page("explorer/trouble.html", status, ui=UI, kind="rate", wait=wait)
        answer.headers = (*answer.headers, (b"retry-after", str(wait).encode()))
        return answer
    if isinstance(error, Unavailable):
        kind = "chain" if error.code in _CHAIN_CODES else "busy" if error.code == "busy" else "store"
        answer = page("explorer/trouble.html", status, ui=UI, kind=kind, wait=None)
        answer.headers = (*answer.headers, (b"retry-after", RETRY_AFTER))
        return answer
    return page("explorer/trouble.html", 500, ui=UI, kind="crash", wait=None)


def explorer_door(path: str, summary: str, *query: str) -> Callable[[Handler], Handler]:
    """Declare a page: public, rate-limited, and answering every error as a page."""

    def declare(handler: Handler) -> Handler:
        @wraps(handler)
        def guarded(call: Call) -> Answer:
            try:
                answer: Answer = handler(call)
            except ChainMemoryError as error:
                if isinstance(error, Unavailable):
                    log.warning(
                        "an explorer page can't be read", action="explorer.unavailable", code=error.code
                    )
                answer = refuse(error)
            except Exception:  # noqa: BLE001 - a person gets a page, the log the place
                log.error("an explorer page failed", action="explorer.failed", page=path, exc_info=True)
                answer = refuse(ChainMemoryError(""))
            return answer

        rules = Record({name: Written() for name in query}) if query else None
        doors.get(
            path,
            needs="public",
            summary=summary,
            query=rules,
            answer=TEXT,
            media=HTML,
            documented=False,
            refuse=refuse,
        )(guarded)
        return guarded

    return declare


@explorer_door("/explorer", "The chain's front page")
def front(call: Call) -> Answer:
    return page("explorer/home.html", ui=UI, home=call.engine.explorer.home(), embedded=_embedded(call))


@explorer_door("/explorer/", "The same, as some write it")
def front_with_slash(_call: Call) -> Answer:
    return _redirect("/explorer")


@explorer_door("/explorer/blocks", "Blocks, newest first", "from")
def block_list(call: Call) -> Answer:
    return page("explorer/blocks.html", ui=UI, found=call.engine.explorer.blocks(_number(call, "from")))


@explorer_door("/explorer/block/{name}", "A block, its seal checked", "from")
def block(call: Call) -> Answer:
    asked = call.path["name"]
    if asked == "latest":
        return _redirect(f"/explorer/block/{call.engine.explorer.blocks(None).head}")
    name: int | str | None = names.number(asked)
    if name is None:
        name = names.hash32(asked)
    if name is None:
        raise NotFound(f"{_quoted(asked)} is neither a block's number nor a block's hash.")
    view = call.engine.explorer.block(name, _number(call, "from") or 0)
    return page("explorer/block.html", ui=UI, view=view)


@explorer_door("/explorer/tx/{hash}", "A transaction, decoded", "from")
def transaction(call: Call) -> Answer:
    tx_hash = names.hash32(call.path["hash"])
    if tx_hash is None:
        raise NotFound(f"{_quoted(call.path['hash'])} is no transaction's hash: those have 64 hex digits.")
    view = call.engine.explorer.transaction(tx_hash, _number(call, "from") or 0)
    return page("explorer/transaction.html", ui=UI, view=view)


@explorer_door("/explorer/project/{name}", "A project's anchors", "from", "until")
def project(call: Call) -> Answer:
    name = names.project(call.path["name"])
    if name is None:
        raise NotFound(f"{_quoted(call.path['name'])} is neither a project's public name nor a project's id.")
    view = call.engine.explorer.project(name, _number(call, "from"), _number(call, "until"))
    return page("explorer/project.html", ui=UI, view=view)


@explorer_door("/explorer/memory/{hash}", "A memory by its event hash", "until")
def memory(call: Call) -> Answer:
    event_hash = names.hash32(call.path["hash"])
    if event_hash is None:
        raise NotFound(f"{_quoted(call.path['hash'])} is no event hash: those have 64 hex digits.")
    view = call.engine.explorer.memory(event_hash, _number(call, "until"))
    return page("explorer/memory.html", ui=UI, view=view)


@explorer_door("/explorer/address/{address}", "An address", "until")
def address(call: Call) -> Answer:
    found = names.address(call.path["address"])
    if found is None:
        raise NotFound(f"{_quoted(call.path['address'])} is no address: those have 40 hex digits.")
    view = call.engine.explorer.address(found, _number(call, "until"))
    return page("explorer/address.html", ui=UI, view=view)


@explorer_door("/explorer/search", "Search", "q")
def search(call: Call) -> Answer:
    query = call.query["q"] or ""
    if not query.strip():
        return _redirect("/explorer")
    found = call.engine.explorer.search(query)
    if len(found.hits) == 1 and not found.hits[0].unsure:
        return _redirect(f"/explorer/{found.hits[0].kind}/{UI.part(found.hits[0].name)}")
    status = 200 if found.hits else 404
    return page("explorer/search.html", status, ui=UI, found=found, query=readable(found.query))


# Whatever else is asked for under /explorer is a page too, not the API's JSON.
@explorer_door("/explorer/{a}", "Nothing here")
def nothing(_call: Call) -> Answer:
    raise NotFound("The explorer has no such page.")


for _deeper in ("/explorer/{a}/{b}", "/explorer/{a}/{b}/{c}", "/explorer/{a}/{b}/{c}/{d}"):
    explorer_door(_deeper, "Nothing here")(nothing)


def _embedded(call: Call) -> bool:
    return bool(call.engine.settings.embedded)


def _number(call: Call, name: str) -> int | None:
    """Read a page's place in a list; None where it isn't given. Raises NotFound."""
    given = call.query[name]
    if given is None:
        return None
    number = names.number(given)
    if number is None:
        raise NotFound(f"{_quoted(given)} is no place in this list.")
    return number


def _quoted(text: str) -> str:
    """Quote what a stranger asked for, shortened."""
    shown = readable(text[:80]) + ("…" if len(text) > 80 else "")
    return f"“{shown}”"


def _redirect(place: str) -> Answer:
    found = page("explorer/moved.html", 303, ui=UI, place=place)
    found.headers = (*found.headers, (b"location", place.encode("ascii")))
    return found
