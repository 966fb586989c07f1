"""Schemathesis against our own OpenAPI document: no 500 on any input, no answer it does not describe."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    content_type_conformance,
    ignored_auth,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from api.app import ChainMemoryAPI, create_app
from chainmemory.settings import Settings
from tests.support.served import Served, serving

EXAMPLES = 15
CONFORMANCE = [
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
    allow_header_conformance,
    unsupported_method,
]
# Without a chain these say 503, as they should.
NEED_A_CHAIN = ["/rpc", "/readyz", "/v1/ledger/seal"]
quickly = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@dataclass
class Target:
    """A served API with some data in it, so that not everything is 404."""

    served: Served
    key: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.served.port}"


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with serving(tmp_path_factory.mktemp("home")) as served:
        key = served.new_key()
        headers = [("x-api-key", key)]
        for body in (
            {"content": "one", "project": "p", "tags": ["x"]},
            {"content": {"two": 2}},
            {"content": "three"},
        ):
            assert served.request("POST", "/v1/memory", json.dumps(body).encode(), headers)[0] == 201
        ops = [
            {"op": "add_decision", "title": "t", "statement": "s", "evidence_memory_ids": [1, 2]},
            {"op": "set_phase", "phase": "x", "evidence_memory_ids": [3]},
        ]
        for op in ops:
            body = json.dumps({"ops": [op]}).encode()
            assert served.request("POST", "/v1/project/p/state/ops", body, headers)[0] == 200
        yield Target(served, key)


@schemathesis.hook
def map_path_parameters(context: Any, path_parameters: dict[str, Any] | None) -> dict[str, Any] | None:
    """Let about half of the names and numbers be ones that are there."""
    there = {"n": 1, "name": "p", "slug": "p", "public_name": "p", "item_id": "dec_0001", "id": "work"}
    return {
        name: there[name] if name in there and len(str(value)) % 2 else value
        for name, value in (path_parameters or {}).items()
    } or path_parameters


def _document() -> dict[str, Any]:
    app = create_app(Settings.load(home=Path(tempfile.gettempdir())))
    assert isinstance(app, ChainMemoryAPI)
    return app.openapi()


schema = schemathesis.openapi.from_dict(_document())


@schema.exclude(path=NEED_A_CHAIN).parametrize()
@quickly
def test_every_route_survives_any_input(case: schemathesis.Case, target: Target) -> None:
    case.call_and_validate(
        target.url,
        headers={"x-api-key": target.key},
        checks=[not_a_server_error, ignored_auth, *CONFORMANCE],
    )


@schema.include(path=NEED_A_CHAIN).parametrize()
@quickly
def test_what_needs_a_chain_keeps_to_the_document(case: schemathesis.Case, target: Target) -> None:
    case.call_and_validate(target.url, headers={"x-api-key": target.key}, checks=CONFORMANCE)
