"""Clients without a right, with it, and with a denial are answered by Ottla and Apache Kafka 4.3.1 alike."""

import os
from collections.abc import Iterator

import pytest

from tests.compat.differential.acl_cases import CASES
from tests.compat.differential.acl_servers import compare, start_kafka_with_users, start_ottla_with_users
from tests.compat.differential.compare import Difference
from tests.compat.java.jars import why_not

APIS = sorted({case.api for case in CASES})

pytestmark = [pytest.mark.slow, pytest.mark.java]


@pytest.fixture(scope="module")
def ottla_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server, address = start_ottla_with_users(tmp_path_factory.mktemp("ottla-acls"))
    yield address
    server.stop()


@pytest.fixture(scope="module")
def kafka_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    server, address = start_kafka_with_users(tmp_path_factory.mktemp("kafka-acls"))
    yield address
    server.stop()


@pytest.fixture(scope="module")
def unexplained(ottla_address: str, kafka_address: str) -> list[Difference]:
    """Those of all cases, asked once."""
    found = compare(ottla_address, kafka_address, os.urandom(3).hex())
    return [one for one in found if one.reason() is None]


@pytest.mark.parametrize("api", APIS)
def test_both_refuse_and_answer_the_same(unexplained: list[Difference], api: str) -> None:
    found = [str(one) for one in unexplained if one.api == api]

    assert not found, "\n".join(found)
