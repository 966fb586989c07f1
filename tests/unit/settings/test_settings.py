"""Settings: where they come from, in which order, and how a wrong one is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from chainmemory.errors import ConfigurationError
from chainmemory.settings import Settings, unknown_variables


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"CHAINMEMORY_{name.upper()}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_flags_win_over_variables_and_variables_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "settings.toml").write_text('port = 1001\nhost = "127.0.0.2"\nlog_level = "error"\n')
    monkeypatch.setenv("CHAINMEMORY_PORT", "1002")
    monkeypatch.setenv("CHAINMEMORY_HOST", "127.0.0.3")
    settings = Settings.load(home=tmp_path, port=1003)
    assert (settings.port, settings.host, settings.log_level) == (1003, "127.0.0.3", "error")


def test_the_home_of_the_environment_has_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "settings.toml").write_text("port = 1001\n")
    monkeypatch.setenv("CHAINMEMORY_HOME", str(tmp_path))
    assert Settings.load().port == 1001


def test_defaults_are_an_embedded_chain_that_anchors_within_seconds(tmp_path: Path) -> None:
    settings = Settings.load()
    assert settings.home == tmp_path / ".chainmemory"
    assert (settings.host, settings.port, settings.chain_rpc_port) == ("127.0.0.1", 8420, 8421)
    assert settings.embedded
    assert settings.loopback
    assert settings.chain_url == "http://127.0.0.1:8421"
    assert settings.store_url == f"sqlite:///{tmp_path / '.chainmemory/store.sqlite'}"
    assert settings.memory_wait_s <= 1
    assert settings.state_wait_s <= 1
    assert settings.payload_on_chain


def test_a_real_chain_is_given_time_and_no_ciphertext() -> None:
    settings = Settings.load(rpc_url="https://chain.example/")
    assert not settings.embedded
    assert (settings.memory_wait_s, settings.state_wait_s, settings.confirmations_needed) == (30, 600, 6)
    assert not settings.payload_on_chain


def test_zero_is_a_value_and_not_a_default() -> None:
    assert Settings.load(rpc_url="https://chain.example/", memory_interval_s=0).memory_wait_s == 0


def test_an_empty_variable_is_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAINMEMORY_RPC_URL", "")
    assert Settings.load().embedded


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"port": 70000}, "CHAINMEMORY_PORT"),
        ({"port": "eighty"}, "CHAINMEMORY_PORT"),
        ({"rpc_url": "ftp://h/"}, "http:// or https://"),
        ({"rpc_url": "nonsense"}, "http:// or https://"),
        ({"memory_payload": "plaintext"}, "CHAINMEMORY_MEMORY_PAYLOAD"),
        ({"confirmations": 0}, "CHAINMEMORY_CONFIRMATIONS"),
        ({"port": 9000, "chain_port": 9000}, "port and chain_port must differ"),
        ({"port": 65535}, "give chain_port too"),
        ({"colour": "red"}, "there is no such setting"),
    ],
)
def test_a_wrong_setting_is_named(given: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigurationError, match="Wrong settings") as caught:
        Settings.load(**given)
    assert told in caught.value.message


@pytest.mark.parametrize("text", ["port = ", "home = 'elsewhere'", "prot = 1001"])
def test_a_wrong_settings_file_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "settings.toml").write_text(text)
    with pytest.raises(ConfigurationError):
        Settings.load(home=tmp_path)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"port = ", "isn't valid TOML: Invalid value"),
        (b"port = 1001\nport = 1002\n", "isn't valid TOML: Cannot overwrite a value"),
        (b"port = 1001\n\xff", "isn't UTF-8 text"),
    ],
)
def test_a_damaged_settings_file_is_told_by_its_name(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "settings.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError) as caught:
        Settings.load(home=tmp_path)
    assert caught.value.message.startswith(f"{path} {told}")


def test_no_message_or_repr_quotes_a_secret() -> None:
    settings = Settings.load(
        master_key="00" * 32,
        admin_token="hush",
        rpc_url="https://u:geheim@h/",
        database_url="postgresql://u:geheim@h/d",
    )
    assert all(secret not in repr(settings) for secret in ("0000", "hush", "geheim"))
    with pytest.raises(ConfigurationError) as caught:
        Settings.load(rpc_url="wss://u:geheim@h/", public_rate_burst="hush")
    assert "geheim" not in caught.value.message
    assert "hush" not in caught.value.message


def test_a_child_process_gets_the_very_same_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.load(
        home=tmp_path,
        port=1234,
        master_key="11" * 32,
        confirmations=3,
        memory_interval_s=0.25,
    )
    for name, value in settings.environment().items():
        monkeypatch.setenv(name, value)
    assert Settings.load() == settings


def test_misspelt_variables_are_found() -> None:
    environ = {
        "CHAINMEMORY_PROT": "1",
        "CHAINMEMORY_PORT": "1",
        "CHAINMEMORY_URL": "x",
        "CHAINMEMORY_TEST_POSTGRES_URL": "x",
        "PATH": "x",
    }
    assert unknown_variables(environ) == ["CHAINMEMORY_PROT"]
