"""Metadata, DescribeTopicPartitions and DescribeCluster."""

from typing import Any

from tests.compat.differential.cases import UNKNOWN_ID, Context, Fields, case


def metadata(name: str, *topics: str, since: int = 0, **fields: Any) -> None:
    def ask(context: Context) -> Fields:
        listed = [{"name": context.topic if topic == "TOPIC" else topic} for topic in topics]
        request = {"topics": listed, **fields}
        if context.version >= 4:
            request["allow_auto_topic_creation"] = False
        return request

    case("metadata", name, ask, since=since)


metadata("one topic", "TOPIC")
metadata("twice the same", "TOPIC", "TOPIC")
metadata("nothing", since=1)
metadata("unknown and illegal", "no-such-topic", "bad name", "", "..", "x" * 250, since=4)
metadata("authorized operations", "TOPIC", since=8, include_topic_authorized_operations=True)
metadata("operations of unknown", "no-such-topic", since=8, include_topic_authorized_operations=True)
case(
    "metadata",
    "cluster operations",
    {"topics": [], "include_cluster_authorized_operations": True},
    since=8,
    until=10,
)
case("metadata", "by id", lambda c: {"topics": [{"topic_id": c.topic_id, "name": None}]}, since=12)
case("metadata", "by unknown id", {"topics": [{"topic_id": UNKNOWN_ID, "name": None}]}, since=12)
case(
    "metadata",
    "operations of unknown id",
    {"topics": [{"topic_id": UNKNOWN_ID, "name": None}], "include_topic_authorized_operations": True},
    since=12,
)
case("metadata", "id and name", lambda c: {"topics": [{"topic_id": c.topic_id, "name": c.topic}]}, since=12)
case("metadata", "null name without id", {"topics": [{"name": None}]}, since=12)
case("metadata", "null name before ids", {"topics": [{"name": None}]}, since=10, until=11)


def paged(
    name: str, limit: int = 2000, cursor: tuple[str, int] | None = None, topics: tuple[str, ...] = ("TOPIC",)
) -> None:
    def ask(c: Context) -> Fields:
        def real(topic: str) -> str:
            return c.topic if topic == "TOPIC" else topic

        where = {"topic_name": real(cursor[0]), "partition_index": cursor[1]} if cursor else None
        return {
            "topics": [{"name": real(one)} for one in topics],
            "response_partition_limit": limit,
            "cursor": where,
        }

    case("describe_topic_partitions", name, ask)


paged("one topic")
paged("unknown and illegal", topics=("no-such", "bad name", "", "TOPIC"))
paged("twice the same", topics=("TOPIC", "TOPIC"))
paged("one a page", limit=1)
paged("limit zero", limit=0)
paged("negative limit", limit=-5)
paged("from a cursor", cursor=("TOPIC", 1))
paged("cursor at the end", cursor=("TOPIC", 2))
paged("cursor beyond", cursor=("TOPIC", 9))
paged("cursor negative", cursor=("TOPIC", -1))
paged("cursor at another topic", cursor=("zzz", 0))
paged("cursor before it", cursor=("aaa", 0))

for kind in (0, 1, 2, 3):
    case("describe_cluster", f"endpoint type {kind}", {"endpoint_type": kind}, since=1)
case("describe_cluster", "plain", {})
case("describe_cluster", "operations", {"include_cluster_authorized_operations": True})
case("describe_cluster", "fenced too", {"include_fenced_brokers": True}, since=2)
