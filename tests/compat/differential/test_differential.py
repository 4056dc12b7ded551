"""Ottla and Apache Kafka 4.3.1 answer a table of requests alike, but for a named list with reasons."""

import pytest

from tests.compat.differential.compare import Difference, compare
from tests.compat.differential.table import CASES
from tests.compat.servers import Server

APIS = sorted({case.api for case in CASES})

pytestmark = [pytest.mark.slow, pytest.mark.java]


@pytest.fixture(scope="module")
def unexplained(ottla: Server, reference: Server) -> list[Difference]:
    """Those of the whole table, asked once: what a request changes the next ones find changed in both."""
    return [one for one in compare(ottla.bootstrap, reference.bootstrap) if one.reason() is None]


@pytest.mark.parametrize("api", APIS)
def test_both_answer_the_same(unexplained: list[Difference], api: str) -> None:
    found = [str(one) for one in unexplained if one.api == api]

    assert not found, "\n".join(found)
