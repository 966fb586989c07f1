"""Operations on decisions."""

from __future__ import annotations

from typing import Any

from chainmemory.state.operation import AddItem, ChangeItem, SetStatus, id_of, long, short, status_of
from chainmemory.state.rejection import invalid_transition, invalid_value


class AddDecision(AddItem):
    name = "add_decision"
    array = "decisions"
    fields = (short("title", required=True), long("statement", required=True), short("scope"))


class SetDecisionStatus(SetStatus):
    name = "set_decision_status"
    fields = (id_of("decisions"), status_of("decisions", "confirmed", "rejected"))

    def check(self) -> None:
        item = self.item()
        if item["status"] == "superseded":
            raise invalid_transition(
                f"{item['id']} is superseded by {item['superseded_by']}, so its status can't change any more"
            )


class SupersedeDecision(ChangeItem):
    name = "supersede_decision"
    fields = (id_of("decisions"), id_of("decisions", name="by_id"))

    def check(self) -> None:
        item, successor = self.item(), self.draft.get(("decisions",), self.values["by_id"]).item
        if item is successor:
            raise invalid_value(f"by_id must be another decision than id; both are {item['id']}")
        if item["status"] == "superseded":
            raise invalid_transition(f"{item['id']} is already superseded by {item['superseded_by']}")
        if successor["status"] in ("rejected", "superseded"):
            raise invalid_transition(
                f"by_id {successor['id']} is {successor['status']}; it must be proposed or confirmed"
            )

    def changes(self) -> dict[str, Any]:
        return {"status": "superseded", "superseded_by": self.values["by_id"]}
