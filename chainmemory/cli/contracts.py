"""`chainmemory contracts`: put the contracts on a chain, check them, and let others write to them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chainmemory.chain.artifacts import MEMORY_REGISTRY, STATE_ANCHOR
from chainmemory.cli import options
from chainmemory.cli.output import print_json, say
from chainmemory.cli.settings_file import write_settings
from chainmemory.errors import ConfigurationError, IntegrityError
from chainmemory.logging import redact_url
from chainmemory.settings import SETTINGS_FILE, Settings

if TYPE_CHECKING:
    from chainmemory.chain.deploy import DeployedContract, Deployment
    from chainmemory.chain.fees import FeePolicy
    from chainmemory.chain.gateway import Gateway
    from chainmemory.chain.signer import Signer

app = typer.Typer(help="The contracts on a chain.", no_args_is_help=True)

Rpc = Annotated[
    str | None,
    typer.Option(
        "--rpc",
        envvar="CHAINMEMORY_RPC_URL",
        help="The chain's JSON-RPC. An address with credentials belongs in the variable.",
        metavar="URL",
    ),
]
Keystore = Annotated[
    Path | None,
    typer.Option(
        help="Encrypted key that pays and administers.", show_default="the worker's", metavar="FILE"
    ),
]
Password = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        help="Its first line opens the keystore.",
        show_default="the worker's",
        metavar="FILE",
    ),
]


@app.callback()
def _group() -> None:
    """The contracts on a chain."""


@app.command()
def deploy(
    rpc_url: Rpc = None,
    keystore: Keystore = None,
    password_file: Password = None,
    submitter: Annotated[
        str | None,
        typer.Option(help="Address that may write.", show_default="the keystore's", metavar="ADDRESS"),
    ] = None,
    write: Annotated[bool, typer.Option(help=f"Write them to {SETTINGS_FILE} in the home.")] = True,
    home: options.Home = None,
    as_json: options.AsJson = False,
) -> None:
    """Deploy both contracts, and make them this home's.

    The code that is then on chain is checked to be the published one.
    """
    settings, signer = _begin(home, rpc_url, keystore, password_file)
    from chainmemory.chain.deploy import deploy

    gateway = _gateway(settings)
    deployment = deploy(gateway, signer, policy=_policy(settings), submitter=submitter)
    _show(deployment, as_json)
    if write:
        values: dict[str, str | int] = {
            "rpc_url": settings.chain_url,
            "expected_chain_id": deployment.chain_id,
            "anchor_address": deployment.anchors.address,
            "registry_address": deployment.registry.address,
        }
        if submitter is None and keystore is not None:
            values |= {
                "signer_keystore": str(settings.signer_keystore_path),
                "signer_password_file": str(settings.signer_password_path),
            }
        write_settings(settings, values)
        say(f"Written to {settings.home / SETTINGS_FILE}; `chainmemory serve` uses them.", err=True)


@app.command()
def verify(
    rpc_url: Rpc = None,
    anchor_address: Annotated[
        str | None, typer.Option("--anchor", help=f"{STATE_ANCHOR}'s address.", metavar="ADDRESS")
    ] = None,
    registry_address: Annotated[
        str | None, typer.Option("--registry", help=f"{MEMORY_REGISTRY}'s address.", metavar="ADDRESS")
    ] = None,
    home: options.Home = None,
) -> None:
    """Check that the code on chain is the published one.

    Exit code 1 where it isn't.
    """
    settings = Settings.load(
        home=home, rpc_url=rpc_url, anchor_address=anchor_address, registry_address=registry_address
    )
    from chainmemory.chain.deploy import check_code
    from chainmemory.chain.failures import CodeMismatch

    gateway = _gateway(settings)
    chain_id = gateway.chain_id()
    if settings.expected_chain_id not in (None, chain_id):
        raise IntegrityError(f"This is chain {chain_id}, not {settings.expected_chain_id}.")
    for name, address in _addresses(settings).items():
        try:
            code_hash = check_code(gateway, name, address)
        except CodeMismatch as error:
            raise IntegrityError(error.message) from error
        say(f"{name}  {address} on chain {chain_id}: the published code ({code_hash})")


@app.command()
def grant(
    submitter: Annotated[str, typer.Argument(help="Who may write from now on.", metavar="ADDRESS")],
    rpc_url: Rpc = None,
    keystore: Keystore = None,
    password_file: Password = None,
    home: options.Home = None,
) -> None:
    """Let another address write to both contracts.

    The keystore must be their administrator's.
    """
    settings, signer = _begin(home, rpc_url, keystore, password_file)
    from chainmemory.chain.deploy import grant

    gateway = _gateway(settings)
    hashes = grant(gateway, signer, _deployment(settings, gateway), submitter, policy=_policy(settings))
    say(f"{submitter} may write to both contracts (transactions {', '.join(hashes)}).")


def _begin(
    home: Path | None, rpc_url: str | None, keystore: Path | None, password_file: Path | None
) -> tuple[Settings, Signer]:
    settings = Settings.load(
        home=home, rpc_url=rpc_url, signer_keystore=keystore, signer_password_file=password_file
    )
    _named(settings)
    if keystore is not None and password_file is None and settings.signer_password_file is None:
        raise ConfigurationError("A keystore needs --password-file: a file whose first line opens it.")
    from chainmemory.chain.signer import load_signer

    return settings, load_signer(settings.signer_keystore_path, settings.signer_password_path)


def _named(settings: Settings) -> None:
    if settings.embedded:
        raise ConfigurationError("Name the chain with --rpc; the embedded one gets its contracts by itself.")


def _gateway(settings: Settings) -> Gateway:
    _named(settings)
    from chainmemory.chain.gateway import Gateway

    say(f"Asking the chain at {redact_url(settings.chain_url)} …", err=True)
    return Gateway(settings.chain_url)


def _policy(settings: Settings) -> FeePolicy:
    from chainmemory.chain.fees import GWEI, FeePolicy

    return FeePolicy(int(settings.max_fee_gwei * GWEI))


def _addresses(settings: Settings) -> dict[str, str]:
    if settings.anchor_address is None or settings.registry_address is None:
        raise ConfigurationError(
            "The settings name no contracts; deploy them with `chainmemory contracts deploy`, "
            "or set anchor_address and registry_address."
        )
    return {STATE_ANCHOR: settings.anchor_address, MEMORY_REGISTRY: settings.registry_address}


def _deployment(settings: Settings, gateway: Gateway) -> Deployment:
    """Return the contracts the settings name, their code checked."""
    from chainmemory.chain.deploy import DeployedContract, Deployment, check_code

    def found(name: str, address: str) -> DeployedContract:
        return DeployedContract(name, address, 0, "", check_code(gateway, name, address))

    addresses = _addresses(settings)
    anchors, registry = (found(name, addresses[name]) for name in (STATE_ANCHOR, MEMORY_REGISTRY))
    return Deployment(gateway.chain_id(), anchors, registry)


def _show(deployment: Deployment, as_json: bool) -> None:
    contracts = (deployment.anchors, deployment.registry)
    if as_json:
        shown = {
            contract.name: {
                "address": contract.address,
                "block_number": contract.block_number,
                "tx_hash": contract.tx_hash,
                "code_hash": contract.code_hash,
            }
            for contract in contracts
        }
        print_json({"chain_id": deployment.chain_id, **shown})
        return
    say(f"chain {deployment.chain_id}")
    for contract in contracts:
        say(f"{contract.name}  {contract.address}")
        say(f"  block {contract.block_number}, transaction {contract.tx_hash}")
        say(f"  the code on chain is the published one ({contract.code_hash})")
