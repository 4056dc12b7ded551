"""Names that make an exposition of metrics large: they stand in each series, with their letters escaped."""

import struct
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


def _commit(client: WireClient, group: str) -> str:
    topics = [{"name": TOPIC, "partitions": [{"partition_index": 0, "committed_metadata": ""}]}]
    fields = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": ""}
    return in_words(codes_in(client.call("offset_commit", 8, topics=topics, **fields)))


def _prepare(nodes: Nodes) -> None:
    with nodes.connect() as client:
        wanted = [{"name": TOPIC, "num_partitions": 1, "replication_factor": 1}]
        client.call("create_topics", 7, topics=wanted, timeout_ms=30_000)
        eventually(lambda: _commit(client, "honest"), lambda told: "NONE" in told)


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
    sizes = [len(nodes.scrape()) for _ in range(SCRAPES)]
    assert max(sizes) <= MAX_SCRAPE_BYTES, f"a scrape of {max(sizes)} bytes"
    return f"scrapes of {max(sizes) / 1e6:.1f} MB"


ATTACKS: Final[Sequence[Attack]] = (
    Attack(
        name="metrics-bomb",
        sends="300 groups with names of 32,000 backslashes, 3,000 with 1,000, and scrapes",
        send=_send,
        prepare=_prepare,
        cpu_s=5.0,
        # 3,300 groups (groups_and_ids of the budget) of some 10 kB each, and expositions of up to 32 MiB, in
        # pieces and whole.
        growth_mib=192.0,
        node_counts=(1,),
    ),
)
