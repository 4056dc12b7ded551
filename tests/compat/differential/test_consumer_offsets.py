"""Offsets of a consumer group (KIP-848): the responses to its members, other clients and administrators.

Ottla and Apache Kafka 4.3.1 get the same requests, one after the other.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.compat.servers import Server
from tests.compat.wire_client import WireClient, eventually, only, plain

pytestmark = [pytest.mark.slow, pytest.mark.java]
RUN = os.urandom(3).hex()
GROUP, READ, OTHER = f"offsets-{RUN}", f"read-{RUN}", f"other-{RUN}"
LOADING = {14, 15, 16}


def beat(client: WireClient, epoch: int, **fields: Any) -> Any:
    return client.call(
        "consumer_group_heartbeat", 1, group_id=GROUP, member_id="m1", member_epoch=epoch, **fields
    )


def subscribe(client: WireClient, epoch: int, topic: str) -> Any:
    return beat(
        client, epoch, rebalance_timeout_ms=5_000, subscribed_topic_names=[topic], topic_partitions=[]
    )


def answers(server: Server) -> Iterator[tuple[str, Any]]:
    """Yield each request, and the part of its response that is compared."""
    with WireClient(server.bootstrap) as client:
        topics = [{"name": name, "num_partitions": 2, "replication_factor": 1} for name in (READ, OTHER)]
        client.call("create_topics", 7, topics=topics, timeout_ms=10_000)
        client.call("find_coordinator", 4, key_type=0, coordinator_keys=[GROUP])
        joined = eventually(lambda: subscribe(client, 0, READ), lambda told: told.error_code not in LOADING)
        epoch = int(joined.member_epoch)
        yield "join", (joined.error_code, epoch)
        for version, member_id, given in (
            *((9, "m1", given) for given in (epoch, epoch + 1, epoch - 1, -1, -2)),
            *((9, *who) for who in (("", -1), ("nobody", epoch))),
            *((8, *who) for who in (("m1", epoch), ("nobody", epoch), ("", -1))),
        ):
            for topic in (READ, OTHER):
                yield (
                    f"commit {version} {member_id} {given} {topic}",
                    commit(client, version, member_id, given, topic),
                )
        for version, who, given in (
            *((9, None, given) for given in (-1, -2)),
            *((9, "m1", given) for given in (epoch, epoch - 1, epoch + 1, -1)),
            *((9, who, epoch) for who in ("", "nobody")),
            (8, "nobody", 9),
        ):
            for topics in (None, [{"name": READ, "partition_indexes": [0, 1]}]):
                group = {"group_id": GROUP, "member_id": who, "member_epoch": given, "topics": topics}
                told = client.call("offset_fetch", version, groups=[group])
                yield f"fetch {version} {who} {given} {topics}", ordered(plain(told, version))
        yield "delete offsets", delete_offsets(client)
        yield "delete group", delete_group(client)
        yield "other topic", subscribe(client, epoch, OTHER).error_code
        yield "delete other offsets", delete_offsets(client)
        yield "leave", beat(client, -1).error_code
        yield "delete empty group", delete_group(client)
        yield "delete it again", delete_group(client)
        gone = client.call("offset_fetch", 9, groups=[{"group_id": GROUP, "topics": None}])
        yield "fetch of nothing", ordered(plain(gone, 9))


def commit(client: WireClient, version: int, member_id: str, epoch: int, topic: str) -> Any:
    partition = {"partition_index": 0, "committed_offset": 7, "committed_metadata": "note"}
    told = client.call(
        "offset_commit",
        version,
        group_id=GROUP,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=[{"name": topic, "partitions": [partition]}],
    )
    return plain(told, version)


def delete_offsets(client: WireClient) -> Any:
    topics = [
        {"name": name, "partitions": [{"partition_index": 0}, {"partition_index": 9}]}
        for name in (READ, OTHER, "no-topic")
    ]
    told = client.call("offset_delete", 0, group_id=GROUP, topics=topics)
    return ordered(plain(told, 0))


def delete_group(client: WireClient) -> int:
    return int(only(client.call("delete_groups", 2, groups_names=[GROUP]).results).error_code)


def ordered(answer: Any) -> Any:
    """Return a response with its lists sorted, since topics and partitions come in any order."""
    if isinstance(answer, dict):
        return {key: ordered(value) for key, value in answer.items()}
    return sorted((ordered(each) for each in answer), key=str) if isinstance(answer, list) else answer


def test_both_keep_show_and_delete_offsets_of_a_consumer_group(ottla: Server, reference: Server) -> None:
    for ours, theirs in zip(answers(ottla), answers(reference), strict=True):
        assert ours == theirs
