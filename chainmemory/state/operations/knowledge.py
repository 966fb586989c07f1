"""Operations on what a project knows: assumptions, questions, vocabulary, constraints and metrics."""

from __future__ import annotations

from typing import Any

from chainmemory.protocol.text import printable
from chainmemory.state.draft import Item, Plan
from chainmemory.state.fields import MetricValue
from chainmemory.state.operation import AddItem, ChangeItem, Operation, id_of, long, short
from chainmemory.state.rejection import Rejection, invalid_transition


class AddAssumption(AddItem):
    name = "add_assumption"
    array = "assumptions"
    fields = (long("statement", required=True),)


class InvalidateAssumption(ChangeItem):
    name = "invalidate_assumption"
    fields = (id_of("assumptions"), long("reason"))

    def check(self) -> None:
        _need_status(self.item(), "active")

    def changes(self) -> dict[str, Any]:
        return {"status": "invalidated", "reason": self.values.get("reason")}


class AddOpenQuestion(AddItem):
    name = "add_open_question"
    array = "open_questions"
    fields = (long("question", required=True),)


class AnswerOpenQuestion(ChangeItem):
    name = "answer_open_question"
    fields = (id_of("open_questions"), long("answer", required=True))

    def check(self) -> None:
        _need_status(self.item(), "open")

    def changes(self) -> dict[str, Any]:
        return {"status": "answered", "answer": self.values["answer"]}


class AddVocabulary(AddItem):
    name = "add_vocabulary"
    array = "vocabulary"
    fields = (short("term", required=True), long("definition", required=True))

    def check(self) -> None:
        taken = self.draft.id_by("vocabulary", "term", self.values["term"])
        if taken is not None:
            raise Rejection(
                "duplicate",
                f"the term {printable(self.values['term'])} is already {taken}; use update_vocabulary",
            )


class UpdateVocabulary(ChangeItem):
    name = "update_vocabulary"
    fields = (id_of("vocabulary"), long("definition", required=True))

    def changes(self) -> dict[str, Any]:
        return {"definition": self.values["definition"]}


class AddConstraint(AddItem):
    name = "add_constraint"
    array = "constraints"
    fields = (long("statement", required=True),)


class RemoveConstraint(ChangeItem):
    name = "remove_constraint"
    fields = (id_of("constraints"), long("reason"))

    def check(self) -> None:
        _need_status(self.item(), "active")

    def changes(self) -> dict[str, Any]:
        return {"status": "removed", "reason": self.values.get("reason")}


class SetMetric(Operation):
    """Creates the metric of that name, or updates it; an omitted unit leaves the unit as it is."""

    name = "set_metric"
    fields = (short("name", required=True), MetricValue("value", required=True), short("unit"))
    takes_ref = True

    def plan(self) -> Plan:
        given = self.values
        metric = self.draft.id_by("metrics", "name", given["name"])
        if metric is None:
            return Plan(
                "metrics", None, {"name": given["name"], "value": given["value"], "unit": given.get("unit")}
            )
        return Plan("metrics", metric, {key: given[key] for key in ("value", "unit") if key in given})


def _need_status(item: Item, status: str) -> None:
    if item["status"] != status:
        raise invalid_transition(f"{item['id']} is {item['status']}; it must be {status}")
