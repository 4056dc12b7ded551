"""ShareFetch and ShareAcknowledge, request by request: Ottla and Apache Kafka 4.3.1 answer the same.

But for a fetch of a topic id that is not known: Kafka fails at it (UNKNOWN_SERVER_ERROR for the whole
request), before it can tell UNKNOWN_TOPIC_ID of the partition, as Ottla does.
"""

import os
import random
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import pytest

from ottla.groupcoord.share_state.share_state_words import SharePartitionKey
from ottla.logstore.record_batch import iterate_headers
from tests.compat.batches import batch
from tests.compat.servers import Server, start_kafka, start_ottla
from tests.compat.wire_client import WireClient, eventually, only

pytestmark = [pytest.mark.slow, pytest.mark.java]
RUN = os.urandom(3).hex()
TOPIC = f"fetched-{RUN}"
STRANGE = bytes(range(16))
ONE_NODE = ("share.coordinator.state.topic.replication.factor=1", "share.coordinator.state.topic.min.isr=1")
PARTITIONS = 2
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
SEED = 20_261_128


class Group:
    """A share group on one server; each member has a connection. `told` is what was answered to each step."""

    def __init__(self, server: Server, group: str, topic_id: bytes) -> None:
        self._server, self._group, self._topic_id = server, group, topic_id
        self._wires: dict[str, WireClient] = {}
        self.epochs: dict[str, int] = {}
        self.held: dict[str, list[tuple[int, int, int]]] = {}
        self.told: list[Any] = []

    def close(self) -> None:
        for wire in self._wires.values():
            wire.close()

    def wire(self, member: str) -> WireClient:
        if member not in self._wires:
            self._wires[member] = WireClient(self._server.bootstrap)
        return self._wires[member]

    def begin(self) -> None:
        """Have the states of the group made, as its coordinator does when the first member subscribes."""
        wire = self.wire("admin")
        config = {"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}
        resources = [{"resource_type": 32, "resource_name": self._group, "configs": [config]}]
        wire.call("incremental_alter_configs", 1, resources=resources)
        for index in range(PARTITIONS):
            place = SharePartitionKey(self._group, self._topic_id, index).coordinator_key
            eventually(
                lambda place=place: wire.call("find_coordinator", 6, key_type=2, coordinator_keys=[place]),
                lambda answer: only(answer.coordinators).error_code == 0,
            )
        states = [{"partition": index, "state_epoch": 0, "start_offset": -1} for index in range(PARTITIONS)]
        topics = [{"topic_id": self._topic_id, "partitions": states}]
        eventually(
            lambda: wire.call("initialize_share_group_state", 0, group_id=self._group, topics=topics),
            lambda answer: all(one.error_code == 0 for one in only(answer.results).partitions),
        )

    def fetch(
        self,
        member: str,
        *partitions: int,
        said: dict[int, list[tuple[int, int, list[int]]]] | None = None,
        topic_id: bytes | None = None,
        epoch: int | None = None,
        **fields: Any,
    ) -> Any:
        """One share fetch, which waits for a little; what is answered is noted."""
        said = said or {}
        topics = [
            {
                "topic_id": topic_id or self._topic_id,
                "partitions": [
                    {"partition_index": index, "acknowledgement_batches": as_batches(said.get(index, []))}
                    for index in dict.fromkeys((*partitions, *said))
                ],
            }
        ]
        answer = self.wire(member).call(
            "share_fetch",
            2,
            **{
                "group_id": self._group,
                "member_id": member,
                "share_session_epoch": self.epochs.get(member, 0) if epoch is None else epoch,
                "max_wait_ms": 300,
                "min_bytes": 1,
                "max_bytes": 1 << 20,
                "max_records": 500,
                "batch_size": 500,
                "topics": topics if partitions or said else [],
                **fields,
            },
        )
        if answer.error_code == 0 and epoch is None:
            self.epochs[member] = self.epochs.get(member, 0) + 1
        self.told.append(("fetch", member, self._of_fetch(answer)))
        return answer

    def acknowledge(
        self,
        member: str,
        said: dict[int, list[tuple[int, int, list[int]]]],
        *,
        topic_id: bytes | None = None,
        epoch: int | None = None,
        version: int = 2,
        **fields: Any,
    ) -> None:
        partitions = [
            {"partition_index": index, "acknowledgement_batches": as_batches(batches)}
            for index, batches in said.items()
        ]
        answer = self.wire(member).call(
            "share_acknowledge",
            version,
            **{
                "group_id": self._group,
                "member_id": member,
                "share_session_epoch": self.epochs.get(member, 0) if epoch is None else epoch,
                "topics": [{"topic_id": topic_id or self._topic_id, "partitions": partitions}],
                **fields,
            },
        )
        if answer.error_code == 0 and epoch is None:
            self.epochs[member] = self.epochs.get(member, 0) + 1
        told = sorted(
            (one.partition_index, one.error_code) for topic in answer.responses for one in topic.partitions
        )
        self.told.append(("acknowledge", member, answer.error_code, told))

    def _of_fetch(self, answer: Any) -> Any:
        partitions = []
        for topic in answer.responses:
            for one in topic.partitions:
                content = b"" if one.records is None else bytes(one.records)
                acquired = [
                    (each.first_offset, each.last_offset, each.delivery_count)
                    for each in one.acquired_records
                ]
                partitions.append(
                    (
                        bytes(topic.topic_id) == STRANGE,
                        one.partition_index,
                        one.error_code,
                        one.acknowledge_error_code,
                        acquired,
                        [header.base_offset for _, header in iterate_headers(content)],
                    )
                )
        return answer.error_code, answer.acquisition_lock_timeout_ms, sorted(partitions)


def as_batches(said: list[tuple[int, int, list[int]]]) -> list[dict[str, Any]]:
    return [
        {"first_offset": first, "last_offset": last, "acknowledge_types": types}
        for first, last, types in said
    ]


def acquired_of(answer: Any, index: int) -> list[tuple[int, int]]:
    return [
        (each.first_offset, each.last_offset)
        for topic in answer.responses
        for one in topic.partitions
        if one.partition_index == index
        for each in one.acquired_records
    ]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[Server, bytes]]]:
    """Both servers, each with the id of the topic, in which each partition has 30 batches of 10 records."""
    started: list[tuple[Server, bytes]] = []
    try:
        for start in (start_ottla, start_kafka):
            server = start(tmp_path_factory.mktemp("server"), *ONE_NODE)
            started.append((server, b""))
            with WireClient(server.bootstrap) as client:
                wanted = {"name": TOPIC, "num_partitions": PARTITIONS, "replication_factor": 1}
                made = only(client.call("create_topics", 7, topics=[wanted], timeout_ms=10_000).topics)
                started[-1] = server, bytes(made.topic_id)
                for index in range(PARTITIONS):
                    for _ in range(30):
                        eventually(
                            lambda client=client, index=index: produce(client, index), lambda code: code == 0
                        )
        yield started
    finally:
        for server, _ in started:
            server.stop()


def produce(client: WireClient, index: int) -> int:
    data = {"index": index, "records": batch([b"value"] * 10)}
    topic_data = [{"name": TOPIC, "partition_data": [data]}]
    answer = client.call("produce", 9, acks=-1, timeout_ms=30_000, topic_data=topic_data)
    return int(only(only(answer.responses).partition_responses).error_code)


def until_begun(group: Group, member: str, *partitions: int) -> Any:
    """Fetch until records come; that the state has to be read first takes as long as it takes."""
    answer = group.fetch(member, *partitions, max_records=10, max_wait_ms=5_000)
    group.told.clear()
    return answer


def odd_requests(group: Group) -> None:
    """What no well-behaved client sends, and what one sends at the wrong time."""
    group.fetch("m1", epoch=1)
    group.fetch("m1", epoch=-1)
    group.acknowledge("m1", {0: [(0, 0, [ACCEPT])]}, epoch=0)
    group.acknowledge("m1", {0: [(0, 0, [ACCEPT])]}, epoch=3)
    group.acknowledge("m1", {0: [(0, 0, [ACCEPT])]}, epoch=-1)
    group.fetch("m1", 0, said={0: [(0, 0, [ACCEPT])]}, epoch=0)
    group.fetch("m1", 0, member_id="")
    group.fetch("m1", 0, member_id="m" * 37)
    group.fetch("m1", 0, group_id=None)
    group.fetch("m1", 0, member_id=None)
    group.fetch("m1", 0, max_records=0)
    group.fetch("m1", max_bytes=0)
    group.fetch("m1", is_renew_ack=True)
    group.fetch("m1", epoch=77)
    group.fetch("m1", 9, max_wait_ms=0, max_records=1)
    group.acknowledge("m1", {0: [(0, 0, [ACCEPT])]}, topic_id=STRANGE)
    group.acknowledge("m1", {9: [(0, 0, [ACCEPT])]})
    group.acknowledge("m1", {0: []})
    group.acknowledge("m1", {0: [], 9: [(0, 0, [ACCEPT])]})
    for batches in (
        [(0, 1, [])],
        [(1, 0, [ACCEPT])],
        [(0, 2, [ACCEPT, ACCEPT])],
        [(5, 6, [ACCEPT]), (0, 1, [ACCEPT])],
        [(0, 0, [5])],
        [(0, 0, [-1])],
        [(0, 0, [RENEW])],
    ):
        group.acknowledge("m1", {0: batches})
    group.acknowledge("m1", {0: [(0, 0, [RENEW])]}, version=1)


def test_odd_requests_are_answered_alike(servers: list[tuple[Server, bytes]]) -> None:
    told = []
    for server, topic_id in servers:
        group = Group(server, f"odd-{RUN}", topic_id)
        group.begin()
        odd_requests(group)
        told.append(group.told)
        group.close()

    assert_alike(*told)


def test_two_members_share_a_partition_alike(servers: list[tuple[Server, bytes]]) -> None:
    told = []
    for server, topic_id in servers:
        group = Group(server, f"pair-{RUN}", topic_id)
        group.begin()
        until_begun(group, "m1", 0)
        group.fetch("m2", 0, max_records=15)
        group.fetch("m1", max_records=5, share_acquire_mode=1)
        group.acknowledge("m1", {0: [(0, 9, [ACCEPT, RELEASE, REJECT, GAP, ACCEPT] * 2)]})
        group.acknowledge("m2", {0: [(0, 9, [ACCEPT])]})
        group.acknowledge("m2", {0: [(10, 12, [RELEASE]), (20, 29, [ACCEPT])]})
        group.fetch("m2", said={0: [(13, 19, [ACCEPT])]}, max_records=3)
        group.fetch("m1", max_records=100)
        group.fetch("m1", epoch=-1, said={0: [(10, 12, [ACCEPT])]})
        group.fetch("m2", max_records=20)
        group.fetch("m2", epoch=0)
        told.append(group.told)
        group.close()

    assert_alike(*told)


@pytest.mark.parametrize("seed", range(SEED, SEED + 6))
def test_random_members_are_answered_alike(servers: list[tuple[Server, bytes]], seed: int) -> None:
    told = []
    for server, topic_id in servers:
        chance = random.Random(seed)
        group = Group(server, f"random-{seed}-{RUN}", topic_id)
        group.begin()
        until_begun(group, "m0", 0)
        held = {"m0": [(0, 9)], "m1": [], "m2": []}
        for _ in range(40):
            member = chance.choice(list(held))
            said: list[tuple[int, int, list[int]]] = []
            left: list[tuple[int, int]] = []
            for first, last in held[member]:
                kind = chance.choice(["one", "each", "keep"])
                if kind == "one":
                    said.append((first, last, [chance.choice([ACCEPT, RELEASE, REJECT])]))
                elif kind == "each":
                    kinds = [chance.choice([GAP, ACCEPT, RELEASE, REJECT]) for _ in range(first, last + 1)]
                    said.append((first, last, kinds))
                else:
                    left.append((first, last))
            is_new = member not in group.epochs
            with_fetch = chance.random() < 0.6 or is_new
            size, is_strict = chance.choice([1, 5, 10, 23, 50]), chance.random() < 0.3
            if said and (is_new or not with_fetch or chance.random() < 0.5):
                group.acknowledge(member, {0: said})
                said = []
            if with_fetch:
                answer = group.fetch(
                    member,
                    *((0,) if is_new else ()),
                    said={0: said} if said else None,
                    max_records=size,
                    share_acquire_mode=int(is_strict),
                )
                left += acquired_of(answer, 0)
            held[member] = sorted(left)
        told.append(group.told)
        group.close()

    assert_alike(*told)


def assert_alike(ottla: list[Any], kafka: list[Any]) -> None:
    for step, (ours, theirs) in enumerate(zip_longest(ottla, kafka)):
        assert ours == theirs, f"step {step}"
