"""Options that several commands share; None means that the flag was not given."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Home = Annotated[
    Path | None, typer.Option(help="Folder with all data.", show_default="~/.chainmemory", metavar="DIR")
]
Host = Annotated[
    str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1", metavar="ADDRESS")
]
Port = Annotated[int | None, typer.Option(help="Port of the API.", show_default="8420", metavar="N")]
ChainPort = Annotated[
    int | None,
    typer.Option(help="Port of the embedded chain's RPC.", show_default="the API's + 1", metavar="N"),
]
RpcUrl = Annotated[
    str | None,
    typer.Option(
        "--rpc",
        help="Anchor on this chain instead of the embedded one. "
        "An address with credentials belongs in CHAINMEMORY_RPC_URL, where other users can't see it.",
        metavar="URL",
    ),
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database",
        help="PostgreSQL URL, or a SQLite file. "
        "One with a password belongs in CHAINMEMORY_DATABASE_URL, where other users can't see it.",
        show_default="store.sqlite in the home",
        metavar="URL",
    ),
]
LogLevel = Annotated[
    str | None, typer.Option(help="debug, info, warning or error.", show_default="info", metavar="LEVEL")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Url = Annotated[
    str | None,
    typer.Option(
        help="Address of the server.",
        envvar="CHAINMEMORY_URL",
        show_default="the one on the home",
        metavar="URL",
    ),
]
