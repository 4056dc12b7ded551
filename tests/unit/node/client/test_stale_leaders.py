"""A node that is gone leads nothing: leaders are looked up again before the next attempt."""

import asyncio

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.client.cluster_client import Client, Topic
from ottla.node.wire.messages.metadata import MetadataResponse, MetadataResponseBroker

TOPIC = Topic("t", bytes(16), {0: 1})


@pytest.mark.parametrize(
    ("code", "is_known"), [(ErrorCode.NETWORK_EXCEPTION, False), (ErrorCode.NOT_CONTROLLER, True)]
)
def test_leaders_are_forgotten_when_a_connection_fails(
    code: ErrorCode, is_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.node.client.cluster_client.RETRY_PAUSE_S", 0.0)
    client = Client([("127.0.0.1", 9092)], timeout_s=10)
    client.learn(MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=9092)]))
    client.topics["t"] = TOPIC
    known: list[bool] = []

    async def attempt() -> str:
        known.append("t" in client.topics)
        if len(known) == 1:
            raise KafkaError(code, "the node is gone")
        return "done"

    assert asyncio.run(client.retry(attempt)) == "done"
    assert known == [True, is_known]
