"""Ottla and Apache Kafka 4.3.1 answer a table of requests in the same way, with a list of exceptions."""

import pytest

from tests.compat.differential.compare import Difference, compare
from tests.compat.differential.table import CASES
from tests.compat.servers import Server

APIS = sorted({case.api for case in CASES})

pytestmark = [pytest.mark.slow, pytest.mark.java]


@pytest.fixture(scope="module")
def unexplained(ottla: Server, reference: Server) -> list[Difference]:
    """Run the whole table once, and return the differences that have no reason.

    Later requests find the changes of earlier ones, so a part of the table cannot run alone.
    """
    return [one for one in compare(ottla.bootstrap, reference.bootstrap) if one.reason() is None]


@pytest.mark.parametrize("api", APIS)
def test_both_answer_the_same(unexplained: list[Difference], api: str) -> None:
    found = [str(one) for one in unexplained if one.api == api]

    assert not found, "\n".join(found)
