"""The id that stands for an agent kept as files, worked out by hand."""

from __future__ import annotations

import hashlib

import pytest

from chainmemory.errors import Invalid
from chainmemory.protocol.identity import check_account_id, file_tenant_id


def test_it_is_the_first_half_of_a_tagged_hash() -> None:
    worked = hashlib.sha3_256(b'CM_FILE_TENANT_V1\x00{"agent":"cc"}').hexdigest()[:32]
    assert file_tenant_id("cc") == worked
    assert check_account_id(file_tenant_id("cc")) == worked
    assert file_tenant_id("cd") != worked


@pytest.mark.parametrize("name", ["", "CC", "a/b", "..", "x" * 65])
def test_a_name_is_a_slug(name: str) -> None:
    with pytest.raises(Invalid):
        file_tenant_id(name)
