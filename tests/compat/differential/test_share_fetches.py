"""ShareFetch and ShareAcknowledge, request by request: Ottla and Apache Kafka 4.3.1 answer the same.

One exception is a fetch of an unknown topic id. Kafka fails the whole request (UNKNOWN_SERVER_ERROR) before
it can return UNKNOWN_TOPIC_ID for the partition, as Ottla does.
"""

import os
import random
import time
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import pytest

from ottla.groupcoord.share_state.share_state_words import SharePartitionKey
from ottla.logstore.record_batch import iterate_headers
from tests.compat.batches import batch
from tests.compat.servers import Server, start_kafka, start_ottla
from tests.compat.wire_client import WireClient, eventually, only
from tests.thorough import some_of

pytestmark = [pytest.mark.slow, pytest.mark.java]
TOPIC = f"fetched-{os.urandom(3).hex()}"
UNUSED_TOPIC_ID = bytes(range(16))
ONE_NODE = ("share.coordinator.state.topic.replication.factor=1", "share.coordinator.state.topic.min.isr=1")
PARTITIONS = 2
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
# Both servers answer the end of a session before they have released the member's records, so tests wait.
RELEASED_S = 1.0
SEED = 20_261_128


class Group:
    """A share group on one server, with a connection for each member; it keeps each step's response."""

    def __init__(self, server: Server, group: str, topic_id: bytes) -> None:
        # A test that runs once more needs a group without a state.
        self._server, self._group, self._topic_id = server, f"{group}-{os.urandom(3).hex()}", topic_id
        self._wires: dict[str, WireClient] = {}
        self.epochs: dict[str, int] = {}
        self.answers: list[Any] = []

    def close(self) -> None:
        for wire in self._wires.values():
            wire.close()

    def wire(self, member: str) -> WireClient:
        if member not in self._wires:
            self._wires[member] = WireClient(self._server.bootstrap)
        return self._wires[member]

    def begin(self) -> None:
        """Initialize the states of the group, as its coordinator does when the first member subscribes."""
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
        acknowledged: dict[int, list[tuple[int, int, list[int]]]] | None = None,
        topic_id: bytes | None = None,
        epoch: int | None = None,
        **fields: Any,
    ) -> Any:
        """Send one ShareFetch, which waits for a short time, and note the response."""
        acknowledged = acknowledged or {}
        topics = [
            {
                "topic_id": topic_id or self._topic_id,
                "partitions": [
                    {
                        "partition_index": index,
                        "acknowledgement_batches": as_batches(acknowledged.get(index, [])),
                    }
                    for index in dict.fromkeys((*partitions, *acknowledged))
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
                "topics": topics if partitions or acknowledged else [],
                **fields,
            },
        )
        if answer.error_code == 0 and epoch is None:
            self.epochs[member] = self.epochs.get(member, 0) + 1
        self.answers.append(("fetch", member, self._of_fetch(answer)))
        return answer

    def acknowledge(
        self,
        member: str,
        acknowledged: dict[int, list[tuple[int, int, list[int]]]],
        *,
        topic_id: bytes | None = None,
        epoch: int | None = None,
        version: int = 2,
        **fields: Any,
    ) -> None:
        partitions = [
            {"partition_index": index, "acknowledgement_batches": as_batches(batches)}
            for index, batches in acknowledged.items()
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
        codes = sorted(
            (one.partition_index, one.error_code) for topic in answer.responses for one in topic.partitions
        )
        self.answers.append(("acknowledge", member, answer.error_code, codes))

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
                        bytes(topic.topic_id) == UNUSED_TOPIC_ID,
                        one.partition_index,
                        one.error_code,
                        one.acknowledge_error_code,
                        acquired,
                        [header.base_offset for _, header in iterate_headers(content)],
                    )
                )
        return answer.error_code, answer.acquisition_lock_timeout_ms, sorted(partitions)


def as_batches(acknowledged: list[tuple[int, int, list[int]]]) -> list[dict[str, Any]]:
    return [
        {"first_offset": first, "last_offset": last, "acknowledge_types": types}
        for first, last, types in acknowledged
    ]


def acquired_of(answer: Any, index: int) -> list[tuple[int, int]]:
    return [
        (each.first_offset, each.last_offset)
        for topic in answer.responses
        for one in topic.partitions
        if one.partition_index == index
        for each in one.acquired_records
    ]


def is_release(acknowledged: list[tuple[int, int, list[int]]]) -> bool:
    """Return True if some records are released: the fetch that releases them acquires them or not.

    Their state is written meanwhile, on both servers.
    """
    return any(RELEASE in kinds for _, _, kinds in acknowledged)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[Server, bytes]]]:
    """Start both servers, each with a topic whose partitions have 30 batches of 10 records.

    Give each server with the id of its topic.
    """
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


def fetch_until_acquired(group: Group, member: str, *partitions: int) -> Any:
    """Fetch until records arrive: the first fetch also waits until the state has been read."""
    answer = eventually(
        lambda: group.fetch(member, *partitions, max_records=10, max_wait_ms=5_000),
        lambda answer: all(acquired_of(answer, index) for index in partitions),
    )
    group.answers.clear()
    return answer


def odd_requests(group: Group) -> None:
    """Send requests that no correct client sends, and correct ones at the wrong time."""
    group.fetch("m1", epoch=1)
    group.fetch("m1", epoch=-1)
    group.acknowledge("m1", {0: [(0, 0, [ACCEPT])]}, epoch=0)
    group.acknowledge("m1", {0: [(0, 0, [ACCEPT])]}, epoch=3)
    group.acknowledge("m1", {0: [(0, 0, [ACCEPT])]}, epoch=-1)
    group.fetch("m1", 0, acknowledged={0: [(0, 0, [ACCEPT])]}, epoch=0)
    group.fetch("m1", 0, member_id="")
    group.fetch("m1", 0, member_id="m" * 37)
    group.fetch("m1", 0, group_id=None)
    group.fetch("m1", 0, member_id=None)
    group.fetch("m1", 0, max_records=0)
    group.fetch("m1", max_bytes=0)
    group.fetch("m1", is_renew_ack=True)
    group.fetch("m1", epoch=77)
    group.fetch("m1", 9, max_wait_ms=5_000, max_records=1)  # until the state of partition 0 has been read
    group.acknowledge("m1", {0: [(0, 0, [ACCEPT])]}, topic_id=UNUSED_TOPIC_ID)
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


def test_both_answer_odd_requests_in_the_same_way(servers: list[tuple[Server, bytes]]) -> None:
    answers = []
    for server, topic_id in servers:
        group = Group(server, "odd", topic_id)
        group.begin()
        odd_requests(group)
        answers.append(group.answers)
        group.close()

    assert_alike(*answers)


def test_both_share_a_partition_between_two_members_in_the_same_way(
    servers: list[tuple[Server, bytes]],
) -> None:
    answers = []
    for server, topic_id in servers:
        group = Group(server, "pair", topic_id)
        group.begin()
        fetch_until_acquired(group, "m1", 0)
        group.fetch("m2", 0, max_records=15)
        group.fetch("m1", max_records=5, share_acquire_mode=1)
        group.acknowledge("m1", {0: [(0, 9, [ACCEPT, RELEASE, REJECT, GAP, ACCEPT] * 2)]})
        group.acknowledge("m2", {0: [(0, 9, [ACCEPT])]})
        group.acknowledge("m2", {0: [(10, 12, [RELEASE]), (20, 29, [ACCEPT])]})
        group.fetch("m2", acknowledged={0: [(13, 19, [ACCEPT])]}, max_records=3)
        group.fetch("m1", max_records=100)
        group.fetch("m1", epoch=-1, acknowledged={0: [(10, 12, [ACCEPT])]})
        time.sleep(RELEASED_S)
        group.fetch("m2", max_records=20)
        group.fetch("m2", epoch=0)
        answers.append(group.answers)
        group.close()

    assert_alike(*answers)


@pytest.mark.parametrize("ends", ["in order", "with its connection"])
def test_records_that_a_session_leaves_behind_count_as_delivered(
    servers: list[tuple[Server, bytes]], ends: str
) -> None:
    """Kafka 4.1 did not count such a delivery (KAFKA-17541), later releases do (KAFKA-19972)."""
    answers = []
    for server, topic_id in servers:
        group = Group(server, f"left-{ends.replace(' ', '-')}", topic_id)
        group.begin()
        fetch_until_acquired(group, "m1", 0)
        if ends == "in order":
            group.fetch("m1", epoch=-1, max_wait_ms=0, min_bytes=0, max_bytes=0, max_records=0)
        else:
            group.wire("m1").close()
        time.sleep(RELEASED_S)
        group.fetch("m2", 0, max_records=10, max_wait_ms=5_000)
        answers.append(group.answers)
        group.close()

    assert_alike(*answers)
    _, _, (_, _, [(_, _, _, _, acquired, _)]) = answers[0][-1]
    assert acquired == [(0, 9, 2)]


@pytest.mark.parametrize("seed", range(SEED, SEED + 6))
def test_both_answer_random_members_in_the_same_way(servers: list[tuple[Server, bytes]], seed: int) -> None:
    answers = []
    for server, topic_id in servers:
        chance = random.Random(seed)
        group = Group(server, f"random-{seed}", topic_id)
        group.begin()
        fetch_until_acquired(group, "m0", 0)
        held = {"m0": [(0, 9)], "m1": [], "m2": []}
        for _ in range(40):
            member = chance.choice(list(held))
            acknowledged: list[tuple[int, int, list[int]]] = []
            left: list[tuple[int, int]] = []
            for first, last in held[member]:
                kind = chance.choice(["one", "each", "keep"])
                if kind == "one":
                    acknowledged.append((first, last, [chance.choice([ACCEPT, RELEASE, REJECT])]))
                elif kind == "each":
                    kinds = [chance.choice([GAP, ACCEPT, RELEASE, REJECT]) for _ in range(first, last + 1)]
                    acknowledged.append((first, last, kinds))
                else:
                    left.append((first, last))
            is_new = member not in group.epochs
            with_fetch = chance.random() < 0.6 or is_new
            size, is_strict = chance.choice([1, 5, 10, 23, 50]), chance.random() < 0.3
            if acknowledged and (
                is_new or not with_fetch or chance.random() < 0.5 or is_release(acknowledged)
            ):
                group.acknowledge(member, {0: acknowledged})
                acknowledged = []
            if with_fetch:
                answer = group.fetch(
                    member,
                    *((0,) if is_new else ()),
                    acknowledged={0: acknowledged} if acknowledged else None,
                    max_records=size,
                    share_acquire_mode=int(is_strict),
                )
                left += acquired_of(answer, 0)
            held[member] = sorted(left)
        answers.append(group.answers)
        group.close()

    assert_alike(*answers)


class RandomMembers:
    """Members of one group, on one partition, whose sessions begin, end and fail at random.

    At first m0 has the records 0 to 9.
    """

    def __init__(self, group: Group, chance: random.Random) -> None:
        self._group = group
        self._chance = chance
        self._held: dict[str, list[tuple[int, int]]] = {"m0": [(0, 9)], "m1": [], "m2": []}

    def play(self, steps: int) -> None:
        chance, group = self._chance, self._group
        for _ in range(steps):
            member = chance.choice(list(self._held))
            if member not in group.epochs:
                self._begin(member)
                continue
            kinds = [self._fetch, self._acknowledge, self._renew, self._stray, self._end, self._mistake]
            chance.choices(kinds, (8, 8, 3, 2, 1, 1))[0](member)

    def _begin(self, member: str) -> None:
        """Begin a session, and note the records that the member acquires."""
        self._given(member, self._group.fetch(member, 0, max_records=self._chance.choice([1, 7, 20])))

    def _fetch(self, member: str) -> None:
        acknowledged = self._acknowledgements(member) if self._chance.random() < 0.4 else []
        if is_release(acknowledged):
            self._group.acknowledge(member, {0: acknowledged})
            acknowledged = []
        answer = self._group.fetch(
            member,
            acknowledged={0: acknowledged} if acknowledged else None,
            max_records=self._chance.choice([1, 5, 10, 23]),
            share_acquire_mode=int(self._chance.random() < 0.3),
        )
        self._given(member, answer)

    def _acknowledge(self, member: str) -> None:
        acknowledged = self._acknowledgements(member)
        if acknowledged:
            self._group.acknowledge(member, {0: acknowledged})

    def _renew(self, member: str) -> None:
        """Renew the locks of the member's records; those of records that it no longer holds are rejected."""
        acknowledged = [(first, last, [RENEW]) for first, last in self._held[member]]
        if acknowledged:
            self._group.acknowledge(member, {0: acknowledged}, is_renew_ack=True)

    def _stray(self, member: str) -> None:
        """Acknowledge records that another member holds or held."""
        ranges = [one for other in sorted(self._held) if other != member for one in self._held[other]]
        if ranges:
            first, last = self._chance.choice(ranges)
            self._group.acknowledge(member, {0: [(first, last, [self._chance.choice([ACCEPT, RELEASE])])]})

    def _end(self, member: str) -> None:
        acknowledged = self._acknowledgements(member) if self._chance.random() < 0.5 else []
        fields = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
        if self._chance.random() < 0.5 and acknowledged:
            self._group.acknowledge(member, {0: acknowledged}, epoch=-1)
        else:
            self._group.fetch(
                member, acknowledged={0: acknowledged} if acknowledged else None, epoch=-1, **fields
            )
        self._held[member] = []
        del self._group.epochs[member]
        time.sleep(RELEASED_S)

    def _mistake(self, member: str) -> None:
        """Send a request in a session epoch that is over or has not begun."""
        epoch = self._group.epochs[member] + self._chance.choice([-1, 1, 7])
        if epoch > 0:
            self._group.acknowledge(member, {0: [(0, 0, [ACCEPT])]}, epoch=epoch)

    def _acknowledgements(self, member: str) -> list[tuple[int, int, list[int]]]:
        """Return acknowledgements of some of the member's records, which it then no longer holds."""
        acknowledged: list[tuple[int, int, list[int]]] = []
        left: list[tuple[int, int]] = []
        for first, last in self._held[member]:
            if self._chance.random() < 0.3:
                left.append((first, last))
            elif self._chance.random() < 0.5:
                acknowledged.append((first, last, [self._chance.choice([ACCEPT, RELEASE, REJECT])]))
            else:
                kinds = [self._chance.choice([GAP, ACCEPT, RELEASE, REJECT]) for _ in range(first, last + 1)]
                acknowledged.append((first, last, kinds))
        self._held[member] = left
        return acknowledged

    def _given(self, member: str, answer: Any) -> None:
        self._held[member] = sorted([*self._held[member], *acquired_of(answer, 0)])


@pytest.mark.parametrize("seed", some_of(range(SEED, SEED + 6), of_each_run=4))
def test_both_answer_random_sessions_of_several_members_in_the_same_way(
    servers: list[tuple[Server, bytes]], seed: int
) -> None:
    answers = []
    for server, topic_id in servers:
        group = Group(server, f"sessions-{seed}", topic_id)
        group.begin()
        fetch_until_acquired(group, "m0", 0)
        RandomMembers(group, random.Random(seed)).play(60)
        answers.append(group.answers)
        group.close()

    assert_alike(*answers)


def assert_alike(ottla: list[Any], kafka: list[Any]) -> None:
    for step, (ours, theirs) in enumerate(zip_longest(ottla, kafka)):
        assert ours == theirs, f"step {step}"
