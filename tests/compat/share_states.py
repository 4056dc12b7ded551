"""States of share-partitions, written for the tests with the requests that brokers send."""

from typing import Any

from ottla.logstore.words.topic_partition import uuid_to_text
from tests.compat.wire_client import WireClient, eventually, only

GROUP = "workers"


def write_share_state(bootstrap: str, topic: str, partition: int) -> str:
    """Write a state as the leader of the partition does, and return its key in FindCoordinator."""
    with WireClient(bootstrap.split(",")[0]) as client:
        metadata = client.call("metadata", 12, topics=[{"name": topic}])
        topic_id = only(metadata.topics).topic_id
        key = f"{GROUP}:{uuid_to_text(topic_id)}:{partition}"
        found = eventually(
            lambda: client.call("find_coordinator", 6, key_type=2, coordinator_keys=[key]),
            lambda answer: only(answer.coordinators).error_code == 0,
        )
    coordinator = only(found.coordinators)
    batch = {"first_offset": 5, "last_offset": 9, "delivery_state": 2, "delivery_count": 1}
    beginning = {"partition": partition, "state_epoch": 0, "start_offset": 3}
    change = {
        "partition": partition,
        "state_epoch": 0,
        "leader_epoch": 0,
        "start_offset": -1,
        "delivery_complete_count": 5,
        "state_batches": [batch],
    }
    with WireClient(f"{coordinator.host}:{coordinator.port}") as client:
        for api, version, fields in (
            ("initialize_share_group_state", 0, beginning),
            ("write_share_group_state", 1, change),
        ):
            topics = [{"topic_id": topic_id, "partitions": [fields]}]

            def ask(api: str = api, version: int = version, topics: object = topics) -> Any:
                return client.call(api, version, group_id=GROUP, topics=topics)

            answer = eventually(ask, lambda answer: only(only(answer.results).partitions).error_code == 0)
            assert only(only(answer.results).partitions).error_code == 0, answer
    return key
