"""The OpenAPI document: every route is there with a summary, an example and its errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from api.app import ChainMemoryAPI, create_app
from chainmemory.settings import Settings

ROUTES = [
    "POST /v1/keys",
    "GET /v1/keys",
    "POST /v1/keys/members",
    "DELETE /v1/keys/{key_id}",
    "POST /v1/register",
    "GET /v1/profile",
    "GET /v1/stats",
    "POST /v1/memory",
    "POST /v1/memories/batch",
    "POST /v1/memory/sealed",
    "GET /v1/memories",
    "GET /v1/memories/list",
    "GET /v1/memories/search",
    "GET /v1/memory/{n}",
    "GET /v1/memory/{n}/decrypted",
    "GET /v1/memory/{n}/blob",
    "PUT /v1/memories/{n}/tags",
    "POST /v1/memories/{n}/archive",
    "POST /v1/memories/{n}/unarchive",
    "PUT /v1/memories/{n}/filing",
    "GET /v1/my/memory/{n}/proof",
    "POST /v1/audit/memory/{n}",
    "GET /v1/memory/context",
    "GET /v1/projects",
    "POST /v1/projects",
    "DELETE /v1/projects/{slug}",
    "GET /v1/projects/defaults",
    "POST /v1/projects/from-default/{id}",
    "POST /v1/project/{name}/state/ops",
    "GET /v1/project/{name}/state",
    "GET /v1/project/{name}/state/versions",
    "GET /v1/project/{name}/state/ops",
    "GET /v1/project/{name}/state/diff",
    "GET /v1/project/{name}/inject",
    "GET /v1/project/{name}/state/evidence/{item_id}",
    "GET /v1/project/{name}/state/anchor",
    "GET /v1/verify/{public_name}",
    "POST /v1/audit/state/{name}",
    "GET /v1/ledger/verify",
    "GET /v1/ledger",
    "GET /v1/ledger/export",
    "POST /v1/ledger/seal",
    "GET /v1/chain",
    "POST /rpc",
    "GET /healthz",
    "GET /readyz",
    "GET /metrics",
    "GET /openapi.json",
    "GET /verify/{name}",
]

PUBLIC = {
    "GET /v1/stats",
    "GET /v1/project/{name}/state/anchor",
    "GET /v1/verify/{public_name}",
    "GET /v1/chain",
}


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    home: Path = tmp_path_factory.mktemp("home")
    app = create_app(Settings.load(home=home))
    assert isinstance(app, ChainMemoryAPI)
    return app.openapi()


def _operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def test_every_route_of_the_api_is_documented(document: dict[str, Any]) -> None:
    assert set(ROUTES) <= set(_operations(document))


def test_every_route_has_a_summary_an_example_and_its_errors(document: dict[str, Any]) -> None:
    for route, operation in _operations(document).items():
        assert operation["summary"], route
        done = [status for status in operation["responses"] if status < "400" and status != "204"]
        assert len(done) == 1, route
        (media,) = operation["responses"][done[0]]["content"].values()
        assert "example" in media or "html" in str(operation["responses"][done[0]]), route
        for status, response in operation["responses"].items():
            if status >= "400":
                schema = response["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/Error"}, route
        if "requestBody" in operation:
            assert {"413", "422"} <= operation["responses"].keys(), route
        if operation["security"] and {} not in operation["security"]:
            assert "401" in operation["responses"], route


def test_every_example_fits_its_schema(document: dict[str, Any]) -> None:
    for route, operation in _operations(document).items():
        for status, response in operation["responses"].items():
            for media in response.get("content", {}).values():
                if "example" in media:
                    _check(document, media, f"{route} {status}")
        for media in operation.get("requestBody", {}).get("content", {}).values():
            if "example" in media:
                _check(document, media, route)


def test_public_routes_say_that_they_are_limited(document: dict[str, Any]) -> None:
    operations = _operations(document)
    for route in PUBLIC:
        assert "429" in operations[route]["responses"], route
        assert operations[route]["security"] in ([], [{}, {"key": []}, {"bearer": []}]), route


def test_writing_routes_take_an_idempotency_key_but_those_under_keys(document: dict[str, Any]) -> None:
    takes = {
        route
        for route, operation in _operations(document).items()
        if {"$ref": "#/components/parameters/IdempotencyKey"} in operation.get("parameters", [])
    }
    assert takes == {
        "POST /v1/register",
        "POST /v1/memory",
        "POST /v1/memories/batch",
        "POST /v1/memory/sealed",
        "PUT /v1/memories/{n}/tags",
        "POST /v1/memories/{n}/archive",
        "POST /v1/memories/{n}/unarchive",
        "PUT /v1/memories/{n}/filing",
        "POST /v1/projects",
        "DELETE /v1/projects/{slug}",
        "POST /v1/projects/from-default/{id}",
        "POST /v1/project/{name}/state/ops",
        "POST /v1/ledger/seal",
    }


def _check(document: dict[str, Any], media: dict[str, Any], where: str) -> None:
    schema = {**media["schema"], "components": document["components"]}
    problems = [str(error) for error in jsonschema_rs.validator_for(schema).iter_errors(media["example"])]
    assert not problems, f"{where}: {problems}"
