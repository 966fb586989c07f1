"""`chainmemory ledger`: the agents kept as plain files: verify, seal, anchor, append (protocol §5)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from chainmemory import logging
from chainmemory.cli import options
from chainmemory.cli.account import server_url, stdin_bytes
from chainmemory.cli.exits import EXIT_UNCHECKED, EXIT_WRONG, exit_code
from chainmemory.cli.ledger_chain import HeadReader, HeadsOnChain, anchor_through, head_reader
from chainmemory.cli.ledger_lines import anchor_line, lines_of
from chainmemory.cli.ledger_server import admin_token, owning_server
from chainmemory.cli.ledger_watch import until_interrupted, watch
from chainmemory.cli.output import print_json, printable, say
from chainmemory.client import Client
from chainmemory.engine.clock import unix_now
from chainmemory.errors import ChainMemoryError, Conflict, Invalid, NotFound
from chainmemory.ledger.entries import read_file_line
from chainmemory.ledger.tenant import agents_in, held
from chainmemory.ledger.tenant_check import as_json as report_json
from chainmemory.ledger.tenant_check import check, read_twice
from chainmemory.ledger.tenant_write import adopt, save
from chainmemory.protocol.identity import check_slug
from chainmemory.settings import Settings

app = typer.Typer(help="The ledgers of agents kept as plain files.", no_args_is_help=True)

Agent = Annotated[str | None, typer.Option(help="The agent: its folder's name.", metavar="NAME")]
All = Annotated[bool, typer.Option("--all", help="Every agent of the root.")]
Root = Annotated[
    Path | None,
    typer.Option(help="Folder with a folder per agent.", show_default="~/.agentb/agents", metavar="DIR"),
]
Json = dict[str, Any]

# What is wrong with a ledger, as against what hinders looking at it.
WRONG = frozenset({"ledger_broken", "head_missing"})


@app.callback()
def _group() -> None:
    """The ledgers of agents kept as plain files."""


@app.command()
def verify(
    agent: Agent = None,
    every: All = False,
    root: Root = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read every line a second time, by the slow and exact reader.")
    ] = False,
    anchored: Annotated[
        bool, typer.Option("--anchored", help="Compare with the heads on chain, read from the contract.")
    ] = False,
    rpc: Annotated[
        str | None,
        typer.Option(help="Ask the chain here.", show_default="what the server names", metavar="URL"),
    ] = None,
    as_json: options.AsJson = False,
    home: options.Home = None,
    url: options.Url = None,
) -> None:
    """Check ledgers and records.

    Exit code 1: something is wrong; 2: it couldn't be checked. With --anchored, a ledger that has no head
    on chain yet counts as one that couldn't be checked.
    """
    settings = prepare(home, root)
    names = chosen(settings, agent, every)
    with head_reader(settings, url, rpc) if anchored else nullcontext() as reader:
        told = for_each(names, lambda name: report_of(settings.agents_dir, name, deep=deep, chain=reader))
    show(told, as_json=as_json, single=not every)
    raise typer.Exit(ending_of(told))


@app.command()
def seal(
    agent: Agent = None,
    every: All = False,
    root: Root = None,
    as_json: options.AsJson = False,
    home: options.Home = None,
    url: options.Url = None,
) -> None:
    """Adopt unsealed records, never an altered one.

    Never onto a broken ledger, either. A running server does it, for it owns the ledgers' ends; where its
    port refuses connections, this command does. Anything unclear is refused. Exit codes as for verify.
    """
    settings = prepare(home, root)
    names = chosen(settings, agent, every)
    server = owning_server(settings, url)

    def sealed(name: str) -> Json:
        if server is not None:
            return server.seal_files(name, root=str(settings.agents_dir), admin_token=admin_token(settings))
        with held(settings.agents_dir, name) as tenant:
            adopted, report = adopt(tenant, now=unix_now())
        return {"sealed": adopted, "report": report_json(name, report)}

    told = for_each(names, sealed)
    if server is not None:
        server.close()
    show(told, as_json=as_json, single=not every)
    raise typer.Exit(ending_of(told))


@app.command()
def anchor(
    agent: Agent = None,
    every: All = False,
    root: Root = None,
    wait: Annotated[
        float, typer.Option(min=0, help="Longest wait until it is on chain.", metavar="SECONDS")
    ] = 60.0,
    as_json: options.AsJson = False,
    home: options.Home = None,
    url: options.Url = None,
) -> None:
    """Put the head of a ledger on chain, through the server's worker.

    Exit code 0: it is on chain; 1: the ledger isn't fit for it; 2: it isn't there yet.
    """
    settings = prepare(home, root)
    with Client(server_url(settings, url)) as client:
        told = for_each(
            chosen(settings, agent, every), lambda name: anchor_through(client, settings, name, wait)
        )
    if as_json:
        show(told, as_json=True, single=not every)
    else:
        show([one for one in told if "error" in one], as_json=False, single=False)
        for one in told:
            if "error" not in one:
                say(anchor_line(one))
    raise typer.Exit(ending_of(told))


@app.command()
def append(
    file: Annotated[Path, typer.Argument(help="A record, one JSON object; - reads stdin.", metavar="FILE")],
    agent: Annotated[str, typer.Option(help="The agent: its folder's name.", metavar="NAME")],
    root: Root = None,
    as_json: options.AsJson = False,
    home: options.Home = None,
) -> None:
    """Save one record and seal it.

    Safe to repeat: the same record is saved once.
    """
    settings = prepare(home, root)
    try:
        data = stdin_bytes() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise NotFound(f"{file} can't be read: {error.strerror or type(error).__name__}.") from None
    _make_agent(settings.agents_dir, agent)
    with held(settings.agents_dir, agent) as tenant:
        saved = save(tenant, data, stem="" if str(file) == "-" else file.stem, now=unix_now())
    if as_json:
        told = {"record": saved.record, "ledger_seq": saved.seq, "ledger_hash": saved.hash}
        print_json({"agent_id": agent, **told, "known": saved.known})
    else:
        state = "was sealed already" if saved.known else "is sealed"
        say(f"{printable(agent)}: {printable(saved.record)} {state}: entry {saved.seq} {saved.hash}")


@app.command("watch")
def watch_command(
    agent: Agent = None,
    every: All = False,
    root: Root = None,
    interval: Annotated[float, typer.Option(min=0.05, help="Between two looks.", metavar="SECONDS")] = 1.0,
    home: options.Home = None,
) -> None:
    """Check now, and again whenever a file changes.

    Prints what is different; Ctrl-C ends it. Exit code 0: all was well at last; 1: something wasn't; 130: a
    second Ctrl-C broke off a check.
    """
    settings = prepare(home, root)
    for name in chosen(settings, agent, every):
        if not (settings.agents_dir / name).exists():
            raise NotFound(f"There is no agent {name} in {settings.agents_dir}.", code="no_agent")

    def names() -> list[str]:
        if agent is None:
            return agents_in(settings.agents_dir)
        return [agent] if (settings.agents_dir / agent).exists() else []

    with until_interrupted() as stop:
        well = watch(
            names,
            settings.agents_dir,
            lambda name: report_of(settings.agents_dir, name),
            interval_s=interval,
            stop=stop,
        )
    raise typer.Exit(0 if well else EXIT_WRONG)


def prepare(home: Path | None, root: Path | None) -> Settings:
    """Return the settings with the root that was given, and send the log to stderr."""
    settings = Settings.load(home=home, agents_dir=root)
    logging.configure("ledger", level=settings.log_level)
    return settings


def chosen(settings: Settings, agent: str | None, every: bool) -> list[str]:
    """Return the agents that were named. Raises Invalid for none or both, NotFound where there are none."""
    if (agent is None) != every:
        raise Invalid("Name one agent with --agent, or all with --all.")
    if agent is not None:
        return [agent]
    names = agents_in(settings.agents_dir)
    if not names:
        raise NotFound(f"There is no agent in {settings.agents_dir}.", code="no_agents")
    return names


def report_of(root: Path, name: str, *, deep: bool = False, chain: HeadReader | None = None) -> Json:
    """Check one agent, against the heads on chain where `chain` reads them, and return its report."""
    on_chain = HeadsOnChain({}, None) if chain is None else chain.heads_of(name)
    heads = on_chain.by_position
    with held(root, name) as tenant:
        # None on chain is as good as a chain that can't be asked: nothing was compared.
        known = heads if heads or chain is None else None
        report = check(tenant, heads=known, read=read_twice if deep else read_file_line)
    return report_json(name, report, heads, on_chain.tx_hash)


def for_each(names: list[str], work: Callable[[str], Json]) -> list[Json]:
    """Do the work for each agent; one that can't be done keeps no other from being done."""
    told = []
    for name in names:
        try:
            told.append(work(name))
        except ChainMemoryError as error:
            told.append(
                {
                    "agent_id": name,
                    "error": error.message,
                    "code": error.code,
                    "exit": EXIT_WRONG if error.code in WRONG else exit_code(error),
                    "report": error.details.get("report") if isinstance(error, Conflict) else None,
                }
            )
    return told


def show(told: list[Json], *, as_json: bool, single: bool) -> None:
    """Print what was found, errors to stderr."""
    if as_json:
        plain = [{key: value for key, value in one.items() if key != "exit"} for one in told]
        print_json(plain[0] if single else {"agents": plain})
        return
    for one in told:
        if "error" in one:
            say(f"chainmemory: {printable(one['agent_id'])}: {printable(one['error'])}", err=True)
        report = one.get("report", one)
        if report is not None and "chain" in report:
            for line in lines_of(report):
                say(line)
            if report is one and report["ok"] is None:
                say(f"chainmemory: {printable(one['agent_id'])}: no head of it is on chain yet.", err=True)
        if "error" not in one and "report" in one:
            for record in one["sealed"]:
                say(f"  adopted   {printable(record)}")


def ending_of(told: list[Json]) -> int:
    """Return the exit code: 1 where anything is wrong, else 2 where anything couldn't be checked."""
    codes = {_ending(one) for one in told}
    return EXIT_WRONG if EXIT_WRONG in codes else EXIT_UNCHECKED if EXIT_UNCHECKED in codes else 0


def _ending(one: Json) -> int:
    if "error" in one:
        return int(one["exit"])
    if "anchor" in one:
        return 0 if one["anchor"]["status"] in ("anchored", "covered") else EXIT_UNCHECKED
    if "report" in one:  # what was asked for is done, whether or not the chain could be asked
        return EXIT_WRONG if one["report"]["ok"] is False else 0
    ok = one["ok"]
    return 0 if ok else EXIT_UNCHECKED if ok is None else EXIT_WRONG


def _make_agent(root: Path, name: str) -> None:
    if (root / name).exists():
        return
    try:
        check_slug(name)
    except Invalid:
        raise Invalid(
            "A new agent's name has 1 to 64 characters of a-z, 0-9, '.', '_', '-', first a letter or digit.",
            field="agent",
        ) from None
    try:
        (root / name).mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise Invalid(f"{root / name} can't be made: {error.strerror or type(error).__name__}.") from None
    say(printable(f"New agent {name} in {root}."), err=True)
