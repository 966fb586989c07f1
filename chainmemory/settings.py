"""The settings of a deployment: flags, then `CHAINMEMORY_*` variables, then `settings.toml` in the home."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from chainmemory.errors import ConfigurationError

ENV_PREFIX = "CHAINMEMORY_"
SETTINGS_FILE = "settings.toml"
# Read by other parts (the client, the tests), so they are no misspelt settings.
OTHER_VARIABLES = frozenset({"CHAINMEMORY_URL", "CHAINMEMORY_API_KEY"})
OTHER_PREFIXES = ("CHAINMEMORY_TEST_", "CHAINMEMORY_SUPERVISOR_")
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})
DEFAULT_PORT = 8420


class Settings(BaseSettings):
    """Everything a ChainMemory process can be told; frozen, so that a process runs on one set of settings.

    What depends on the kind of chain is None here and answered by the properties below: the embedded chain is
    ours, free and quick, so it anchors within seconds; any other is given more time.
    """

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        validate_default=True,
    )

    home: Path = Path("~/.chainmemory")
    """Folder with all data, mode 0700."""
    host: str = "127.0.0.1"
    """Address the API listens on."""
    port: int = Field(default=DEFAULT_PORT, ge=0, le=65535)
    """The API's port; 0 lets the system choose (then `run.json` says which)."""

    database_url: str | None = Field(default=None, repr=False)
    """SQLAlchemy URL, or a path of a SQLite file; None is `store.sqlite` in the home."""

    rpc_url: str | None = Field(default=None, repr=False)
    """JSON-RPC of the chain to anchor on; None starts the embedded chain."""
    chain_port: int | None = Field(default=None, ge=0, le=65535)
    """The embedded chain's RPC port on 127.0.0.1; None is `port` + 1 (0 where `port` is 0)."""
    chain_id: int = Field(default=20250, ge=1)
    """The embedded chain's id, written in its genesis."""
    chain_period_s: int = Field(default=1, ge=0)
    """Least seconds between two blocks of the embedded chain."""
    expected_chain_id: int | None = Field(default=None, ge=1)
    """Where given, a chain with another id stops the worker."""
    public_rpc_url: str | None = None
    """An RPC address that verifiers may be told; None is this server's own `/rpc` on the embedded chain."""
    public_explorer_url: str | None = None
    """A block explorer that verifiers may be told."""
    anchor_address: str | None = None
    """ProjectStateAnchor's address; None is the one in the store's deployments."""
    registry_address: str | None = None
    """MemoryRegistry's address; None is the one in the store's deployments."""

    memory_interval_s: float | None = Field(default=None, ge=0)
    """Longest wait before a memory is sent to the chain, in seconds."""
    state_interval_s: float | None = Field(default=None, ge=0)
    """Longest wait before a state is sent to the chain, in seconds."""
    head_interval_s: float | None = Field(default=None, ge=0)
    """Longest wait before a ledger head that moved is sent to the chain, in seconds."""
    confirmations: int | None = Field(default=None, ge=1)
    """Blocks, the one it is in included, before an anchor counts."""
    memory_payload: Literal["ciphertext", "none"] | None = None
    """Whether a memory's ciphertext goes on chain with its hash (protocol §8)."""
    anchor_mode: Literal["direct", "merkle"] = "direct"
    """Whether each state goes on chain by itself, or one root for many (docs/contracts.md)."""
    max_fee_gwei: float = Field(default=200, gt=0)
    """Cap of the price for one unit of gas."""
    worker_part: str = Field(default="1/1", pattern=r"^[1-9][0-9]{0,2}/[1-9][0-9]{0,2}$")
    """Which part of the work this worker does, as "2/3"; each part has a worker, with a signer of its own."""
    lease_s: float = Field(default=15, gt=0)
    """How long a worker's lease lasts without a heartbeat, in seconds."""
    poll_s: float = Field(default=0.25, gt=0)
    """How often the worker looks for work, in seconds."""
    signer_keystore: Path | None = None
    """The worker's encrypted key file; None is `signer.json` in the home."""
    signer_password_file: Path | None = None
    """File whose first line opens the keystore; None is `signer.password` in the home."""

    master_key: SecretStr | None = None
    """The master key, 64 hex digits; None is `master.key` in the home."""
    admin_token: SecretStr | None = None
    """What opens account creation where the server can be reached from elsewhere."""
    agents_dir: Path = Path("~/.agentb/agents")
    """The file tenants: a folder per agent, each with `memory/*.json` and `ledger.jsonl` (protocol §5)."""

    max_body_bytes: int = Field(default=2 * 1024 * 1024, ge=1024)
    """Largest request body."""
    public_rate_per_minute: int = Field(default=300, ge=1)
    """Requests one address may make to public routes, per minute."""
    public_rate_burst: int = Field(default=100, ge=1)
    """How many of them at once."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    grace_s: float = Field(default=10, gt=0)
    """How long a process may take to stop before the supervisor kills it, in seconds."""

    @classmethod
    def load(cls, **given: Any) -> Settings:
        """Read the settings of this process.

        `given` are the flags (None where a flag wasn't given).
        Raises ConfigurationError with one line per wrong setting; values are never quoted.
        """
        try:
            return cls(**{name: value for name, value in given.items() if value is not None})
        except ValidationError as error:
            raise ConfigurationError(_explain(error)) from None
        except (SettingsError, ValueError, OSError) as error:
            raise ConfigurationError(f"The settings can't be read: {error}") from None
        except RuntimeError:  # expanduser's
            raise ConfigurationError(
                "A setting names a folder by ~, but there is no such user, or this one has no home folder; "
                "give the whole path."
            ) from None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the signature is pydantic's
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, _HomeFile(settings_cls)

    @field_validator("home", "agents_dir", "signer_keystore", "signer_password_file")
    @classmethod
    def _absolute(cls, path: Path | None) -> Path | None:
        return None if path is None else Path(os.path.abspath(path.expanduser()))  # noqa: PTH100 - keeps links

    @field_validator("rpc_url", "public_rpc_url", "public_explorer_url")
    @classmethod
    def _http(cls, url: str | None) -> str | None:
        if url is not None and (urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname):
            raise ValueError("must be an http:// or https:// address")
        return url

    @field_validator("worker_part")
    @classmethod
    def _one_of_all(cls, part: str) -> str:
        index, count = part.split("/")
        if int(index) > int(count):
            raise ValueError("must be like 2/3: the second of three")
        return part

    @model_validator(mode="after")
    def _ports_differ(self) -> Settings:
        if self.embedded and self.port and self.chain_rpc_port == self.port:
            raise ValueError("port and chain_port must differ")
        if self.embedded and self.chain_rpc_port > 65535:
            raise ValueError("port 65535 leaves no port for the embedded chain; give chain_port too")
        return self

    # -- what depends on other settings ---------------------------------------------------------------

    @property
    def embedded(self) -> bool:
        """True where this deployment runs its own chain."""
        return self.rpc_url is None

    @property
    def chain_rpc_port(self) -> int:
        if self.chain_port is not None:
            return self.chain_port
        return self.port + 1 if self.port else 0

    @property
    def chain_url(self) -> str:
        """The RPC address the worker and the API use; may hold credentials, so never show it."""
        return self.rpc_url or f"http://127.0.0.1:{self.chain_rpc_port}"

    @property
    def store_url(self) -> str:
        """What `Database.open` takes; may hold credentials, so never show it."""
        return self.database_url or f"sqlite:///{self.home / 'store.sqlite'}"

    @property
    def loopback(self) -> bool:
        """True where the API listens on loopback only."""
        return self.host in LOOPBACK_HOSTS

    @property
    def memory_wait_s(self) -> float:
        return _first(self.memory_interval_s, 0.5 if self.embedded else 30.0)

    @property
    def state_wait_s(self) -> float:
        return _first(self.state_interval_s, 0.5 if self.embedded else 600.0)

    @property
    def head_wait_s(self) -> float:
        return _first(self.head_interval_s, 5.0 if self.embedded else 600.0)

    @property
    def confirmations_needed(self) -> int:
        return int(_first(self.confirmations, 1 if self.embedded else 6))

    @property
    def payload_on_chain(self) -> bool:
        """True where a memory's ciphertext goes on chain (protocol §8)."""
        return (self.memory_payload or ("ciphertext" if self.embedded else "none")) == "ciphertext"

    @property
    def chain_dir(self) -> Path:
        return self.home / "chain"

    @property
    def logs_dir(self) -> Path:
        return self.home / "logs"

    @property
    def run_file(self) -> Path:
        """`run.json`: the ports and process ids of the server that runs on this home."""
        return self.home / "run.json"

    @property
    def signer_keystore_path(self) -> Path:
        return self.signer_keystore or self.home / "signer.json"

    @property
    def signer_password_path(self) -> Path:
        return self.signer_password_file or self.home / "signer.password"

    def environment(self) -> dict[str, str]:
        """Return the `CHAINMEMORY_*` variables that give another process these very settings."""
        variables = {}
        for name in type(self).model_fields:
            value = getattr(self, name)
            if value is not None:
                plain = value.get_secret_value() if isinstance(value, SecretStr) else value
                variables[ENV_PREFIX + name.upper()] = str(plain)
        return variables


class _HomeFile(TomlConfigSettingsSource):
    """`settings.toml` of the home that the sources before this one name."""

    def __call__(self) -> dict[str, Any]:
        home = self.current_state.get("home") or self.settings_cls.model_fields["home"].default
        path = Path(home).expanduser() / SETTINGS_FILE
        if path.is_dir():  # would be passed over
            raise ConfigurationError(f"{path} is a folder; the settings are a file.")
        try:
            values = self._read_files(path)
        except UnicodeDecodeError:
            raise ConfigurationError(f"{path} isn't UTF-8 text; correct it, or move it away.") from None
        except ValueError as error:  # tomllib's, which says where and quotes no value
            raise ConfigurationError(f"{path} isn't valid TOML: {error}.") from None
        if "home" in values:
            raise ConfigurationError(f"{SETTINGS_FILE} lies in the home, so it can't name another home.")
        return values


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """List `CHAINMEMORY_*` variables that no part reads: most likely misspelt settings."""
    known = {ENV_PREFIX + name.upper() for name in Settings.model_fields} | OTHER_VARIABLES
    return sorted(
        name
        for name in environ
        if name.startswith(ENV_PREFIX) and name not in known and not name.startswith(OTHER_PREFIXES)
    )


def _first(given: float | None, otherwise: float) -> float:
    return otherwise if given is None else given


def _explain(error: ValidationError) -> str:
    lines = []
    for problem in error.errors(include_url=False, include_input=False, include_context=False):
        name = ".".join(str(part) for part in problem["loc"]) or "settings"
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            message = "there is no such setting"
        lines.append(f"{name} ({ENV_PREFIX}{name.upper()}): {message}")
    return "Wrong settings: " + "; ".join(lines) + "."
