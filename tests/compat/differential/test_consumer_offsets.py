"""Offsets of a consumer group (KIP-848): the responses to its members, other clients and administrators.

Ottla and Apache Kafka 4.3.1 get the same requests, one after the other.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.compat.differential.test_group_sessions import unique
from tests.compat.servers import Server
from tests.compat.wire_client import WireClient, eventually, only, plain

pytestmark = [pytest.mark.slow, pytest.mark.java]
READ, OTHER = unique("read"), unique("other")
LOADING = {14, 15, 16}


def heartbeat(client: WireClient, group: str, epoch: int, **fields: Any) -> Any:
    return client.call(
        "consumer_group_heartbeat", 1, group_id=group, member_id="m1", member_epoch=epoch, **fields
    )


def subscribe(client: WireClient, group: str, epoch: int, topic: str) -> Any:
    return heartbeat(
        client, group, epoch, rebalance_timeout_ms=5_000, subscribed_topic_names=[topic], topic_partitions=[]
    )


def answers(server: Server, group: str) -> Iterator[tuple[str, Any]]:
    """Yield each request, and the part of its response that is compared."""
    with WireClient(server.bootstrap) as client:
        topics = [{"name": name, "num_partitions": 2, "replication_factor": 1} for name in (READ, OTHER)]
        client.call("create_topics", 7, topics=topics, timeout_ms=10_000)
        client.call("find_coordinator", 4, key_type=0, coordinator_keys=[group])
        joined = eventually(
            lambda: subscribe(client, group, 0, READ), lambda answer: answer.error_code not in LOADING
        )
        epoch = int(joined.member_epoch)
        yield "join", (joined.error_code, epoch)
        for version, member_id, given in (
            *((9, "m1", given) for given in (epoch, epoch + 1, epoch - 1, -1, -2)),
            *((9, *member) for member in (("", -1), ("nobody", epoch))),
            *((8, *member) for member in (("m1", epoch), ("nobody", epoch), ("", -1))),
        ):
            for topic in (READ, OTHER):
                yield (
                    f"commit {version} {member_id} {given} {topic}",
                    commit(client, group, version, member_id, given, topic),
                )
        for version, member, given in (
            *((9, None, given) for given in (-1, -2)),
            *((9, "m1", given) for given in (epoch, epoch - 1, epoch + 1, -1)),
            *((9, member, epoch) for member in ("", "nobody")),
            (8, "nobody", 9),
        ):
            for topics in (None, [{"name": READ, "partition_indexes": [0, 1]}]):
                wanted = {"group_id": group, "member_id": member, "member_epoch": given, "topics": topics}
                response = client.call("offset_fetch", version, groups=[wanted])
                yield f"fetch {version} {member} {given} {topics}", ordered(plain(response, version))
        yield "delete offsets", delete_offsets(client, group)
        yield "delete group", delete_group(client, group)
        yield "other topic", subscribe(client, group, epoch, OTHER).error_code
        yield "delete other offsets", delete_offsets(client, group)
        yield "leave", heartbeat(client, group, -1).error_code
        yield "delete empty group", delete_group(client, group)
        yield "delete it again", delete_group(client, group)
        gone = client.call("offset_fetch", 9, groups=[{"group_id": group, "topics": None}])
        yield "fetch of nothing", ordered(plain(gone, 9))


def commit(client: WireClient, group: str, version: int, member_id: str, epoch: int, topic: str) -> Any:
    partition = {"partition_index": 0, "committed_offset": 7, "committed_metadata": "note"}
    response = client.call(
        "offset_commit",
        version,
        group_id=group,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=[{"name": topic, "partitions": [partition]}],
    )
    return plain(response, version)


def delete_offsets(client: WireClient, group: str) -> Any:
    topics = [
        {"name": name, "partitions": [{"partition_index": 0}, {"partition_index": 9}]}
        for name in (READ, OTHER, "no-topic")
    ]
    response = client.call("offset_delete", 0, group_id=group, topics=topics)
    return ordered(plain(response, 0))


def delete_group(client: WireClient, group: str) -> int:
    return int(only(client.call("delete_groups", 2, groups_names=[group]).results).error_code)


def ordered(answer: Any) -> Any:
    """Return a response with its lists sorted, since topics and partitions come in any order."""
    if isinstance(answer, dict):
        return {key: ordered(value) for key, value in answer.items()}
    return sorted((ordered(each) for each in answer), key=str) if isinstance(answer, list) else answer


def test_both_keep_show_and_delete_offsets_of_a_consumer_group(ottla: Server, reference: Server) -> None:
    group = unique("offsets")

    for ours, theirs in zip(answers(ottla, group), answers(reference, group), strict=True):
        assert ours == theirs
