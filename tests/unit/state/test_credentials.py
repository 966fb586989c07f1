"""Which texts look like a secret, and which ordinary topology doesn't."""

from __future__ import annotations

import random
import string
import time
from typing import Any

import pytest

from chainmemory.state.credentials import looks_secret
from tests.support.grammar import TABLE, build
from tests.support.states import Project

# "~" keeps scanners of this repository quiet; it is taken out before the test.
SECRETS = [
    "postgres://app:hunter2@db.internal/app",
    "redis://:s3cret@cache:6379",
    "https://deploy:p@ss!word@git.example.com/repo.git",
    "amqp://guest:guest@mq:5672",
    "ssh root:Passw0rd1@10.0.0.1",
    "admin:hunter2@10.0.0.1",
    "password=hunter2",
    "password: hunter2 for now",
    "Password: correct-horse",
    "pwd = hunter2",
    'DB_PASSWORD="letmein1"',
    "api_key: 1234abcd",
    "apikey=abcd1234",
    "token: abc123def456",
    "access_token=ya29.a0Af",
    "https://hooks.example.com/x?token=abc123&x=1",
    "https://host/?api_key=xyz",
    "mysql --password hunter2",
    "mysql --password=hunter2",
    "Authorization: Bearer abcdef0123456789abcdef",
    "AKIA~IOSFODNN7EXAMPLE",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "ghp_~0123456789abcdefghijABCDEFGHIJ012345",
    "glpat-~ABCDEFGHIJ0123456789",
    "xoxb-~123456789012-abcdefABCDEF",
    "sk_live_~0123456789abcdefghijklmn",
    "-----BEGIN RSA PRIVATE KEY-----",
    "-----BEGIN OPENSSH PRIVATE KEY----- b3BlbnNzaC1rZXktdjEAAAA",
    "eyJ~hbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318",
    "d41d8cd98f00b204e9800998ecf8427e",
    "github_pat_~11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ01234567",
    "AIza~SyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY",
    "sk-proj-~abcd1234EFGH5678ijkl9012MNOP",
    "npm_~abcdefghij0123456789ABCDEFGHIJ012345",
    "SG.~ngeVfQFYQlKU0ufo8x5d1A.TwL2iGABf9DHoTf-09kqeF8tAmbihYzrnopKc-1s5cr",
    "aic_3f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c",
    "secret: s3cr3tv4lue",
    "client_secret=9f8e7d6c",
    "sshpass -p hunter2 ssh root@h",
    "ssh -o x --token abc123def456",
    "https://x-access-token:abc123@github.com/org/repo",
]

ORDINARY = [
    "db-1.internal",
    "db1.prod.eu-west-1.example.com",
    "10.0.0.5",
    "2001:db8::1",
    "2001:0db8:85a3:0000:0000:8a2e:0370:7334",
    "git@github.com:org/repo.git",
    "https://github.com/org/repo.git",
    "ssh://git@git.example.com:2222/team/payment-system.git",
    "https://user@bitbucket.org/team/repo.git",
    "/srv/apps/payment-system/current",
    "/home/deploy/Projects/ChainMemory-Engine/v2.0/backend",
    "C:\\Program Files\\Payment System\\bin",
    "~/code/ChainMemory",
    "api gateway",
    "ssh",
    "ssh key from the vault",
    "bastion, then ssh",
    "SSH with agent forwarding, no passwords",
    "password-less ssh only",
    "Passwords live in the vault",
    "secrets: managed by Vault",
    "Never commit secrets; use the vault",
    "password: prompt",
    "password: none",
    "PasswordAuthentication no",
    "PasswordAuthentication=no",
    "password_file: /etc/app/db.pass",
    "secret: /run/secrets/db",
    "secretName: db-credentials",
    "token: ${API_TOKEN}",
    "password=<from vault>",
    "postgres://app:${DB_PASS}@db/app",
    "postgres://app:***@db/app",
    "postgres://app@db:5432/app",
    "arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db-AbCdEf",
    "arn:aws:iam::123456789012:role/PaymentsDeployRole",
    "payments-7d9f8b6c5d-x2x4z",
    "ip-10-0-0-12.eu-west-1.compute.internal",
    "ec2-203-0-113-25.compute-1.amazonaws.com",
    "i-0123456789abcdef0",
    "nginx:1.25@sha256:4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318",
    "registry.example.com/team/app:v1.2.3",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b",
    "SHA256:uNiVztksCsDhcc0u9e8BgrJXVGDo1TzZSXSVtBdVsLU",
    "0x71C7656EC7ab88b098defB751B7401B5f6d8976F",
    "123e4567-e89b-12d3-a456-426614174000",
    "ops@example.com",
    "mailto:ops@example.com",
    "owner: ops@example.com",
    "systemd",
    "docker compose",
    "kubernetes/StatefulSet",
    "APEXDATABASE",
    "APACCLUSTER01",
    "Payments-V2-Node-17-EuWest1",
    "PaymentSystemV2Production1",
    "no deploys on Friday",
    "deploy only through CI; tokens are rotated monthly",
    "Use the bearer token from the vault",
    "basic authentication is forbidden",
    "basic authentication-and-authorization",
    "Token bucket: 100 requests per minute",
    "PostgreSQL 15 with RLS",
    "bypass: allowed for admins",
    "the-quick-brown-fox-jumps-over-the-lazy-dog-0123456789",
    "my_project_database_server_number_17_in_eu_west_1",
    "Größe 決定 ✓",
    "tls1.3 only; ciphers TLS_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "vpc-0a1b2c3d4e5f60718",
    "host key: ed25519",
    "ssh key: ~/.ssh/id_ed25519",
    "key: value",
    "keyboard: us",
    "auth: oidc",
    "port 5432",
    "monkey: see monkey do",
    "compass: north",
    "monitoring every 5m; alert token bucket",
    "keycloak.internal:8443/auth/realms/Main",
    "s3://company-backups-eu-west-1/Production/PaymentSystem/2024",
    "gs://Bucket-01/Data/V2/Exports_2024_01_01",
    "OAuth2-Proxy-v7.4.0-linux-amd64",
    "app-20240101T120000Z-build1234",
    "Ubuntu2204LTSx64Server01",
    "x86_64-unknown-linux-gnu",
    "token",
    "password",
    "secrets",
    "the password policy",
    "MYSQL_PASSWORD_FILE=/run/secrets/mysql",
    "sha256:4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318",
]


@pytest.mark.parametrize("text", SECRETS)
def test_a_secret_is_seen(text: str) -> None:
    text = text.replace("~", "")
    assert looks_secret(text)
    assert looks_secret(f"see {text} there")


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_topology_is_not(text: str) -> None:
    assert not looks_secret(text)
    assert not looks_secret(f"on {text} today")


@pytest.mark.parametrize(
    ("length", "alphabet", "least"),
    [
        (24, string.ascii_letters + string.digits, 0.9),
        (32, string.ascii_letters + string.digits, 0.95),
        (43, string.ascii_letters + string.digits + "-_", 0.95),
        (32, "0123456789abcdef", 0.95),
        (64, "0123456789abcdef", 0.95),
        (32, string.ascii_lowercase + string.digits, 0.9),
    ],
)
def test_random_tokens_are_seen_nearly_always(length: int, alphabet: str, least: float) -> None:
    source = random.Random(7)
    tokens = ["".join(source.choices(alphabet, k=length)) for _ in range(300)]
    assert sum(map(looks_secret, tokens)) >= least * len(tokens)


TEXT_FIELDS = [
    (name, field.rstrip("*"))
    for name, fields in TABLE.items()
    if name.startswith("add_env_")
    for field, kind in fields.items()
    if kind in ("short", "long")
]


@pytest.mark.parametrize(("name", "field"), TEXT_FIELDS)
@pytest.mark.parametrize("secret", ["password=hunter2", "https://bob:hunter2@git.example.com/x.git"])
def test_every_text_of_the_environment_is_looked_at(
    seeded: Project, name: str, field: str, secret: str
) -> None:
    result = seeded.try_call(build(name, **{field: secret}))
    assert [one.code for one in result.rejected] == ["secret_detected"]
    assert field in result.rejected[0].error
    assert "hunter2" not in result.rejected[0].error


@pytest.mark.parametrize(("name", "field"), TEXT_FIELDS)
def test_no_other_error_quotes_a_text_of_the_environment_either(
    seeded: Project, name: str, field: str
) -> None:
    for value in ("hunter2" * 1000, ["hunter2"], {"hunter2": 1}, "hunter2\x00"):
        rejected = seeded.try_call(build(name, **{field: value})).rejected[0]
        assert rejected.code == "invalid_value"
        assert "hunter2" not in rejected.error
    rejected = seeded.try_call(build("add_env_host", access_port="hunter2")).rejected[0]
    assert "hunter2" not in rejected.error


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("add_decision", "statement"),
        ("set_vision", "vision"),
        ("add_vocabulary", "term"),
        ("set_metric", "unit"),
    ],
)
def test_other_ops_may_speak_of_secrets(seeded: Project, name: str, field: str) -> None:
    assert seeded.try_call(build(name, **{field: "password=hunter2"})).rejected == []


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text",
    [
        "password=" * 444,
        "password" + " " * 3990,
        "password " * 444,
        'password"' * 440,
        "eyJ" * 1333,
        "eyJa." * 800,
        "a://" * 1000,
        "a:" * 2000,
        "-" * 4000,
        ("-" * 40 + "p") * 97,
        "token_" * 666,
        "a" * 4000,
        "//" + "/:" * 1999,
        "key[" * 1000,
    ],
    ids=lambda text: text[:12],
)
def test_a_hostile_text_takes_no_time(text: str) -> None:
    looks_secret("warm up")
    started: Any = time.process_time()
    looks_secret(text)
    assert time.process_time() - started < 0.5
