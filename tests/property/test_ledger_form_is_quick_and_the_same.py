"""Form C by orjson, where it is used, gives the bytes json.dumps gives."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from chainmemory.protocol.ledger_entry import ledger_form

texts = st.text(st.characters(exclude_categories=["Cs"]))
plain = st.dictionaries(texts, texts | st.integers(-(2**70), 2**70), max_size=8)
mixed = st.dictionaries(
    texts, st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | texts
)


@given(plain | mixed)
def test_the_bytes_are_those_of_json_dumps(value: dict[str, object]) -> None:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert ledger_form(value) == text.encode()
