"""A record that a member rejects is a dead letter over REST, and returns to its topic by redelivery."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import AcknowledgeType, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.node.embedded import Cluster
from ottla.node.settings.group_config_def import COPIES_RECORDS, DEAD_LETTER_TOPIC
from tests.integration.rest.conftest import TIMEOUT_S, Api, eventually, name_of
from tests.share_polls import poll

pytestmark = pytest.mark.slow


@contextmanager
def member(bootstrap: str, group: str, topic: str) -> Iterator[ShareConsumer]:
    consumer = ShareConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    yield consumer
    consumer.close()


@pytest.mark.parametrize("copies", [True, False])
def test_a_rejected_record_becomes_a_letter_and_is_delivered_again(
    rest_cluster: Cluster, api: Api, copies: bool
) -> None:
    topic, letters, group = name_of("orders"), name_of("dlq.orders"), name_of("workers")
    admin = AdminClient({"bootstrap.servers": rest_cluster.bootstrap, "log_level": 0})
    enabled = {"errors.deadletterqueue.group.enable": "true"}
    made = admin.create_topics([NewTopic(topic, 1, 3), NewTopic(letters, 1, 3, config=enabled)])
    for one in made.values():
        one.result(TIMEOUT_S)
    changes = {
        "share.auto.offset.reset": "earliest",
        DEAD_LETTER_TOPIC: letters,
        COPIES_RECORDS: str(copies).lower(),
    }
    configs = [{"name": name, "value": value} for name, value in changes.items()]
    api.post(f"{api.v3}/groups/{group}/configs:alter", {"data": configs}, 204)
    producer = Producer({"bootstrap.servers": rest_cluster.bootstrap, "log_level": 0})
    producer.produce(topic, b"work", b"k", headers=[("trace", b"abc")])
    producer.flush(TIMEOUT_S)
    path = f"/v1/groups/{group}/dead-letters"

    with member(rest_cluster.bootstrap, group, topic) as consumer:
        [first] = eventually(lambda: poll(consumer), "the record is received")
        consumer.acknowledge(first, AcknowledgeType.REJECT)
        consumer.commit_sync(TIMEOUT_S)
        page = eventually(lambda: (one := api.get(path))["letters"] and one, "the letter is written")
        [letter] = page["letters"]
        whole = api.get(f"{path}/{letter['partition_id']}/{letter['offset']}")
        place = {"partition": letter["partition_id"], "offset": letter["offset"]}
        again = api.post(f"{path}/deliver", {"topic": topic, "letters": [place]})
        [second] = eventually(lambda: poll(consumer), "the record is received again")
        consumer.acknowledge(second, AcknowledgeType.ACCEPT)
        consumer.commit_sync(TIMEOUT_S)

    assert (page["topic"], page["copies_records"]) == (letters, copies)
    assert letter["origin"] == {"topic": topic, "partition": 0, "offset": 0}
    assert (letter["reason"], letter["delivery_count"]) == ("Offset rejected by client.", 1)
    assert letter["has_copy"] is copies and whole["content"] == ("letter" if copies else "origin")
    assert whole["value"]["data"] == "work"
    assert again["delivered"][0]["to"] == {"topic": topic, "partition": 0, "offset": 1}
    assert (second.key(), second.value(), second.headers()) == (b"k", b"work", [("trace", b"abc")])
    assert second.offset() == 1
