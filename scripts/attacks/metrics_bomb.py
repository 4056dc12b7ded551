"""Names that make an exposition of metrics large: each series contains them, with every character escaped."""

import struct
from collections import Counter
from collections.abc import Sequence
from typing import Final

from attacks.attack import Attack
from attacks.hostile import codes_in, in_words
from attacks.nodes import Nodes
from ottla.logstore.words.schema_compiler import decode
from tests.compat.wire_client import WireClient, eventually, message_class

LONG_GROUPS: Final = 300
GROUPS: Final = 3_000
SCRAPES: Final = 3
TOPIC: Final = "metrics-bomb"
MAX_SCRAPE_BYTES: Final = 33_554_432  # the default of ottla.metrics.bytes.max
IN_FLIGHT: Final = 100
CLIENT_IDS: Final = 5_000
# Settings of its own, so that no other attack shares these nodes: the quotas stay on them.
SETTINGS: Final = {"quota.window.num": "13"}
TOPICS: Final = 300
SHARE_GROUPS: Final = 400


def _commit(client: WireClient, group: str) -> str:
    topics = [{"name": TOPIC, "partitions": [{"partition_index": 0, "committed_metadata": ""}]}]
    fields = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": ""}
    return in_words(codes_in(client.call("offset_commit", 8, topics=topics, **fields)))


def _prepare(nodes: Nodes) -> None:
    with nodes.connect() as client:
        wanted = [{"name": TOPIC, "num_partitions": 1, "replication_factor": 1}]
        client.call("create_topics", 7, topics=wanted, timeout_ms=30_000)
        eventually(lambda: _commit(client, "honest"), lambda code: "NONE" in code)


def _send(nodes: Nodes) -> str:
    with nodes.connect() as client:
        refused = {_commit(client, "\\" * 32_000 + f"{number}") for number in range(LONG_GROUPS)}
        assert refused == {"1 x INVALID_GROUP_ID"}, refused
        topics = [{"name": TOPIC, "partitions": [{"partition_index": 0, "committed_metadata": ""}]}]
        for first in range(0, GROUPS, IN_FLIGHT):
            for number in range(first, first + IN_FLIGHT):
                group = "\\" * 1_000 + f"{number}"
                client.send(
                    "offset_commit",
                    8,
                    group_id=group,
                    generation_id_or_member_epoch=-1,
                    member_id="",
                    topics=topics,
                )
            for _ in range(IN_FLIGHT):
                frame = client.receive_frame()
                assert struct.unpack_from(">i", frame)[0] <= client.correlation_id
                answer = decode(message_class("offset_commit", "Response"), 8, frame[5:])
                assert not answer.topics[0].partitions[0].error_code, answer
    return _scraped(nodes, least_bytes=10_000_000)


# ---- other names -----------------------------------------------------------------------------------------


def _scraped(nodes: Nodes, least_bytes: int = 1_000_000) -> str:
    """Scrape a few times, once the metrics have the names: the lag of groups is read every few seconds."""
    size = eventually(lambda: len(nodes.scrape()), lambda size: size >= least_bytes)
    assert size >= least_bytes, f"a scrape has {size} bytes: the names are missing"
    sizes = [len(nodes.scrape()) for _ in range(SCRAPES)]
    assert max(sizes) <= MAX_SCRAPE_BYTES, f"a scrape has {max(sizes)} bytes"
    return f"scrapes of {max(sizes) / 1e6:.1f} MB"


def _limit_every_client(nodes: Nodes) -> None:
    """Set a quota that no client reaches, because clients with a quota are measured, each by its id."""
    entry = {
        "entity": [{"entity_type": "client-id", "entity_name": None}],
        "ops": [{"key": "request_percentage", "value": 1e6}],
    }
    with nodes.connect() as client:
        answer = client.call("alter_client_quotas", 1, entries=[entry])
        assert not answer.entries[0].error_code, answer.entries[0].error_message


def _send_client_ids(nodes: Nodes) -> str:
    with nodes.connect() as client:
        for first in range(0, CLIENT_IDS, IN_FLIGHT):
            frames = bytearray()
            for number in range(first, first + IN_FLIGHT):
                client.client_id = "\\" * 1_000 + f"{number}"
                frames += client.frame("metadata", 9, topics=[])
            client.send_bytes(bytes(frames))
            for _ in range(IN_FLIGHT):
                client.receive_frame()
    return _scraped(nodes)


def _send_topics_and_share_groups(nodes: Nodes) -> str:
    """Create topics and share groups with the longest names; those of topics hold nothing to escape."""
    with nodes.connect() as client:
        wanted = [
            {"name": f"{number:m<249}", "num_partitions": 1, "replication_factor": 1}
            for number in range(TOPICS)
        ]
        client.call("create_topics", 7, topics=wanted, timeout_ms=30_000)
        codes: Counter[int] = Counter()
        for number in range(SHARE_GROUPS):
            answer = client.call(
                "share_group_heartbeat",
                1,
                group_id="\\" * 1_000 + f"s{number}",
                member_id=f"m{number}",
                member_epoch=0,
                subscribed_topic_names=[TOPIC],
            )
            codes[int(answer.error_code)] += 1
    return f"{in_words(codes)}; {_scraped(nodes)}"


ATTACKS: Final[Sequence[Attack]] = (
    Attack(
        name="metrics-of-client-ids",
        sends=f"{CLIENT_IDS:,} client ids of 1,000 backslashes that have a quota, and scrapes",
        send=_send_client_ids,
        prepare=_limit_every_client,
        settings=SETTINGS,
        cpu_s=5.0,
        node_counts=(1,),
    ),
    Attack(
        name="metrics-of-topics-and-share-groups",
        sends=f"{TOPICS} topics with names of 249 characters, {SHARE_GROUPS} share groups of backslashes",
        send=_send_topics_and_share_groups,
        prepare=_prepare,
        cpu_s=8.0,
        growth_mib=128.0,  # as in metrics-bomb, for fewer groups
        node_counts=(1,),
    ),
    Attack(
        name="metrics-bomb",
        sends=f"{LONG_GROUPS} groups with names of 32,000 backslashes, {GROUPS:,} with 1,000, and scrapes",
        send=_send,
        prepare=_prepare,
        cpu_s=5.0,
        # 3,000 groups (groups_and_ids of the memory budget) of some 10 kB each, and expositions of up to
        # 32 MiB, in pieces and joined.
        growth_mib=192.0,
        node_counts=(1,),
    ),
)
