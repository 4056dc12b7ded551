"""The result of elections has those that took place and those that failed."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client import leader_moves
from ottla.node.client.cluster_admin import PREFERRED, ElectionResult

ELECTED, LED_BY_IT, FAILED = (TopicPartition("t", index) for index in range(3))


def test_a_partition_that_is_led_as_it_should_be_did_not_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leaders come from a node that may not have applied the previous election yet."""
    failure = KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "it is not in sync")
    errors = {LED_BY_IT: KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "it leads"), FAILED: failure}

    async def elect_leaders(_: Any, partitions: Iterable[TopicPartition], __: int) -> list[ElectionResult]:
        return [ElectionResult(one, errors.get(one)) for one in partitions]

    monkeypatch.setattr("ottla.node.client.cluster_admin.elect_leaders", elect_leaders)

    found = asyncio.run(leader_moves.elect(None, [FAILED, LED_BY_IT, ELECTED], PREFERRED))  # type: ignore[arg-type]

    assert found.elections == [ElectionResult(ELECTED, None), ElectionResult(FAILED, failure)]
