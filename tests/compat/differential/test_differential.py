"""Ottla and Apache Kafka 4.3.1 answer a table of requests alike, but for a named list with reasons."""

import pytest

from tests.compat.differential.compare import compare
from tests.compat.differential.table import CASES
from tests.compat.servers import Server

APIS = sorted({case.api for case in CASES})


@pytest.mark.slow
@pytest.mark.java
@pytest.mark.parametrize("api", APIS)
def test_both_answer_the_same(ottla: Server, reference: Server, api: str) -> None:
    found = [str(one) for one in compare(ottla.bootstrap, reference.bootstrap, api) if one.reason() is None]

    assert not found, "\n".join(found)
