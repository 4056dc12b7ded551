"""Ottla and Apache Kafka 4.3.1 answer clients with a right, without it, and with a denial in the same way."""

import os
import time
from collections.abc import Iterator
from functools import partial

import pytest

from tests.compat.differential.acl_cases import BY_EXPRESSION, CASES, Names
from tests.compat.differential.acl_servers import (
    compare,
    log_in,
    start_kafka_with_users,
    start_ottla_with_users,
)
from tests.compat.differential.compare import Difference
from tests.compat.java.jars import reason_to_skip

TIMEOUT_S = 60.0
APIS = sorted({case.api for case in CASES})

pytestmark = [pytest.mark.slow, pytest.mark.java]


@pytest.fixture(scope="module")
def ottla_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server, address = start_ottla_with_users(tmp_path_factory.mktemp("ottla-acls"))
    yield address
    server.stop()


@pytest.fixture(scope="module")
def kafka_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if (reason := reason_to_skip()) is not None:
        pytest.skip(reason)
    server, address = start_kafka_with_users(tmp_path_factory.mktemp("kafka-acls"))
    yield address
    server.stop()


@pytest.fixture(scope="module")
def run() -> str:
    """Return a random string that makes the names of this run unique."""
    return os.urandom(3).hex()


@pytest.fixture(scope="module")
def unexplained(ottla_address: str, kafka_address: str, run: str) -> list[Difference]:
    """Run all cases once, and return the differences that have no reason."""
    return [one for one in compare(ottla_address, kafka_address, run) if one.reason() is None]


@pytest.mark.parametrize("api", APIS)
def test_both_reject_and_answer_the_same(unexplained: list[Difference], api: str) -> None:
    found = [str(one) for one in unexplained if one.api == api]

    assert not found, "\n".join(found)


def test_an_expression_finds_the_topics_that_the_member_may_describe(
    unexplained: list[Difference], ottla_address: str, kafka_address: str, run: str
) -> None:
    case = next(one for one in CASES if one.name == BY_EXPRESSION)
    *_, allowed = case.roles()
    names = Names(run=run, number=case.number, node=0, ids={})
    wanted = f"({names.topic}|{names.other})x*"  # an expression that was never matched before

    for address in (ottla_address, kafka_address):
        with log_in(address, allowed.user) as client:
            heartbeat = partial(client.call, "consumer_group_heartbeat", 1, group_id=names.group)
            heartbeat(member_id="m", member_epoch=-1)  # the member that the comparison left behind
            answer = heartbeat(
                member_id="late",
                member_epoch=0,
                rebalance_timeout_ms=10_000,
                topic_partitions=[],
                subscribed_topic_regex=wanted,
            )
            assert answer.error_code == 0, answer
            deadline = time.monotonic() + TIMEOUT_S
            assigned: set[bytes] = set()
            while not assigned:
                assert time.monotonic() < deadline, f"{address} assigns nothing"
                time.sleep(0.5)
                answer = heartbeat(member_id="late", member_epoch=answer.member_epoch)
                assert answer.error_code == 0, answer
                assignment = answer.assignment.topic_partitions if answer.assignment is not None else ()
                assigned = {bytes(one.topic_id) for one in assignment}
            by_id = [{"topic_id": one, "name": None} for one in assigned]
            found = client.call("metadata", 12, topics=by_id).topics
            assert [one.name for one in found] == [names.topic]
            heartbeat(member_id="late", member_epoch=-1)
