"""Operations on the document's three texts."""

from __future__ import annotations

from chainmemory.state.operation import SetScalar, long, short


class SetFocus(SetScalar):
    name = "set_focus"
    scalar = "current_focus"
    fields = (long("focus", required=True),)


class SetPhase(SetScalar):
    name = "set_phase"
    scalar = "phase"
    fields = (short("phase", required=True),)


class SetVision(SetScalar):
    name = "set_vision"
    scalar = "vision"
    fields = (long("vision", required=True),)
