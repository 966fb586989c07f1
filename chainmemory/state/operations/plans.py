"""Operations on what a project is up to: milestones, risks and priorities."""

from __future__ import annotations

from typing import Any

from chainmemory.state.draft import Draft, Plan
from chainmemory.state.fields import Choice, Day, Integer, ItemIds
from chainmemory.state.operation import AddItem, ChangeItem, SetStatus, id_of, long, short, status_of
from chainmemory.state.rejection import invalid_transition, invalid_value


class AddMilestone(AddItem):
    name = "add_milestone"
    array = "milestones"
    fields = (short("title", required=True), long("description"), Day("target_date"))


class SetMilestoneStatus(SetStatus):
    name = "set_milestone_status"
    fields = (id_of("milestones"), status_of("milestones"))


class AddRisk(AddItem):
    name = "add_risk"
    array = "risks"
    fields = (
        short("title", required=True),
        Choice("severity", required=True, values=("low", "med", "high")),
        long("description"),
    )


class SetRiskStatus(SetStatus):
    name = "set_risk_status"
    fields = (id_of("risks"), status_of("risks"))


class AddPriority(AddItem):
    name = "add_priority"
    array = "priorities"
    fields = (
        short("title", required=True),
        long("description"),
        long("completion_criterion"),
        ItemIds("mitigates", arrays=("risks",)),
    )

    def check(self) -> None:
        mitigates = self.values.get("mitigates", [])
        _refuse_repeated(mitigates)
        _refuse_closed(self.draft, mitigates)

    def plan(self) -> Plan:
        created = super().plan()
        return Plan(self.array, None, {**created.changes, "mitigates": self.values.get("mitigates", [])})


class SetPriorityStatus(SetStatus):
    name = "set_priority_status"
    fields = (id_of("priorities"), status_of("priorities"))


class ReorderPriority(ChangeItem):
    name = "reorder_priority"
    fields = (id_of("priorities"), Integer("position", required=True))

    def check(self) -> None:
        last = len(self.draft.items("priorities"))
        if self.values["position"] > last:
            raise invalid_value(f"position {self.values['position']} is past the end; the last is {last}")

    def rank(self) -> int | None:
        return int(self.values["position"]) - 1


class SetPriorityRisks(ChangeItem):
    name = "set_priority_risks"
    fields = (id_of("priorities"), ItemIds("mitigates", required=True, arrays=("risks",)))

    def check(self) -> None:
        _refuse_repeated(self.values["mitigates"])
        item = self.item()
        if item["status"] != "active":
            raise invalid_transition(f"{item['id']} is {item['status']}; only an active priority takes risks")
        _refuse_closed(self.draft, self.values["mitigates"])

    def changes(self) -> dict[str, Any]:
        return {"mitigates": self.values["mitigates"]}


def _refuse_repeated(risks: list[str]) -> None:
    seen: set[str] = set()
    for risk in risks:
        if risk in seen:
            raise invalid_value(f"mitigates names {risk} twice; name each risk once")
        seen.add(risk)


def _refuse_closed(draft: Draft, risks: list[str]) -> None:
    for risk in risks:
        if draft.get(("risks",), risk).item["status"] == "closed":
            raise invalid_transition(
                f"{risk} is closed; a priority can only mitigate open or mitigated risks"
            )
