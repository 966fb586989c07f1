"""Operations on the environment: topology only, never a secret."""

from __future__ import annotations

from typing import Any

from chainmemory.state.document import ENVIRONMENT
from chainmemory.state.fields import Integer, ItemId
from chainmemory.state.operation import AddItem, ChangeItem, SetStatus, id_of, long, short, status_of
from chainmemory.state.rejection import Rejection, invalid_transition, invalid_value

_MAX_PORT = 65_535


class AddEnvHost(AddItem):
    name = "add_env_host"
    array = "environment.hosts"
    holds_topology = True
    fields = (
        short("name", required=True),
        short("role", required=True),
        short("address"),
        short("access_method"),
        Integer("access_port", high=_MAX_PORT),
    )


class AddEnvService(AddItem):
    name = "add_env_service"
    array = "environment.services"
    holds_topology = True
    fields = (
        short("name", required=True),
        ItemId("host_id", arrays=("environment.hosts",)),
        Integer("port", high=_MAX_PORT),
        short("manager"),
        short("code_path"),
    )


class AddEnvRepo(AddItem):
    name = "add_env_repo"
    array = "environment.repositories"
    holds_topology = True
    fields = (short("name", required=True), short("path", required=True), short("remote"))


class AddEnvRule(AddItem):
    name = "add_env_rule"
    array = "environment.rules"
    holds_topology = True
    fields = (long("rule", required=True), short("scope"))


class SetEnvStatus(SetStatus):
    name = "set_env_status"
    fields = (id_of(*ENVIRONMENT), status_of(ENVIRONMENT[0], "active", "retired"))

    def check(self) -> None:
        item = self.item()
        if item["status"] == "superseded":
            raise invalid_transition(
                f"{item['id']} is superseded by {item['superseded_by']}, so its status can't change any more"
            )


class VerifyEnv(ChangeItem):
    name = "verify_env"
    fields = (id_of(*ENVIRONMENT),)

    def check(self) -> None:
        item = self.item()
        if item["status"] != "active":
            raise invalid_transition(f"{item['id']} is {item['status']}; only an active item can be verified")

    def changes(self) -> dict[str, Any]:
        return {"verified_version": self.draft.version}


class SupersedeEnv(ChangeItem):
    name = "supersede_env"
    fields = (id_of(*ENVIRONMENT), id_of(*ENVIRONMENT, name="by_id"))

    def check(self) -> None:
        place, by = self.place(), self.draft.get(ENVIRONMENT, self.values["by_id"])
        if by.array != place.array:
            raise Rejection(
                "not_found",
                f"by_id {by.item['id']} must be in the same array as id: one of {place.array}",
            )
        if by.item is place.item:
            raise invalid_value(f"by_id must be another item than id; both are {by.item['id']}")
        if place.item["status"] == "superseded":
            raise invalid_transition(
                f"{place.item['id']} is already superseded by {place.item['superseded_by']}"
            )
        if by.item["status"] != "active":
            raise invalid_transition(f"by_id {by.item['id']} is {by.item['status']}; it must be active")

    def changes(self) -> dict[str, Any]:
        return {"status": "superseded", "superseded_by": self.values["by_id"]}
