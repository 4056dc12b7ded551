"""Offsets in transactions, markers and active producers: the same requests to Ottla and Apache Kafka 4.3.1.

A result names producers by their epochs; ids and times differ from server to server and are left out.
"""

import os
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from ottla.logstore.record import marker_of_batch
from ottla.logstore.record_batch import iterate_headers
from ottla.node.coordinators.key_partition import partition_for
from tests.compat.differential.raw_producer import LOADING, Producer
from tests.compat.servers import Server
from tests.compat.wire_client import WireClient, eventually, only, plain

pytestmark = [pytest.mark.slow, pytest.mark.java]
OFFSETS = "__consumer_offsets"
COMMIT, ABORT = True, False


def marker(
    producer_id: int, epoch: int, committed: bool, *places: tuple[str, int], version: int = 0, by: int = 0
) -> dict[str, Any]:
    return {
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "transaction_result": committed,
        "coordinator_epoch": by,
        "transaction_version": version,
        "topics": [{"name": name, "partition_indexes": [index]} for name, index in places],
    }


class TransactionalRequests:
    """The requests of one run to one server, with a topic, a group and transactional ids of its own."""

    def __init__(self, client: WireClient, run: str) -> None:
        self.client, self.run = client, run
        self.topic, self.group, self.prefix = f"marked-{run}", f"group-{run}", f"id-{run}"

    def answers(self) -> Iterator[tuple[str, Any]]:
        """Yield each request, and the part of its response that is compared."""
        created = [{"name": self.topic, "num_partitions": 2, "replication_factor": 1}]
        self.client.call("create_topics", 7, topics=created, timeout_ms=10_000)
        self.client.call("find_coordinator", 4, key_type=0, coordinator_keys=[self.group])
        eventually(self.fetched, lambda answer: answer[1] not in LOADING)
        yield from self._offsets()
        yield from self._members()
        yield from self._markers()

    def fetched(self) -> tuple[int, int]:
        """Return the group's stable offset and its error code."""
        group = {"group_id": self.group, "topics": [{"name": self.topic, "partition_indexes": [0]}]}
        answer = only(self.client.call("offset_fetch", 8, groups=[group], require_stable=True).groups)
        if answer.error_code:
            return -1, int(answer.error_code)
        one = only(only(answer.topics).partitions)
        return int(one.committed_offset), int(one.error_code)

    def settled(self) -> tuple[int, int]:
        """Return the group's stable offset when no transaction holds it back any more."""
        return eventually(self.fetched, lambda answer: answer[1] != 88)

    def mark(self, version: int, *markers: dict[str, Any]) -> list[tuple[str, int, int]]:
        """Write markers, and return topic, partition and code of each result, without the producers."""
        answer = self.client.call("write_txn_markers", version, markers=list(markers))
        return sorted(
            (topic.name.replace(self.run, ""), one.partition_index, one.error_code)
            for each in answer.markers
            for topic in each.topics
            for one in topic.partitions
        )

    def producers(self, topic: str, partition: int, ids: Sequence[int]) -> list[Any]:
        """Describe these producers, in their order; of a time only whether there is one."""
        topics = [{"name": topic, "partition_indexes": [partition]}]
        answer = self.client.call("describe_producers", 0, topics=topics)
        found = only(only(answer.topics).partitions)
        by_id = {one.producer_id: plain(one, 0) for one in found.active_producers}
        described = [by_id.get(producer_id, {}) for producer_id in ids]
        for one in described:
            one.pop("producer_id", None)
            if "last_timestamp" in one:
                one["last_timestamp"] = one["last_timestamp"] > 0
            if topic == OFFSETS and "current_txn_start_offset" in one:
                one["current_txn_start_offset"] = one["current_txn_start_offset"] >= 0
        return described

    def group_partition(self) -> int:
        """Return the partition of `__consumer_offsets` that keeps the group."""
        topic = only(self.client.call("metadata", 9, topics=[{"name": OFFSETS}]).topics)
        return partition_for(self.group, len(topic.partitions))

    def batches(self, topic: str, partition: int, ids: Sequence[int]) -> list[Any]:
        """Return the batches of these producers: epoch, first sequence, and records or the marker."""
        partition_request = {"partition": partition, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        answer = self.client.call(
            "fetch",
            11,
            max_wait_ms=0,
            min_bytes=0,
            session_id=0,
            session_epoch=-1,
            topics=[{"topic": topic, "partitions": [partition_request]}],
        )
        content, found = bytes(only(only(answer.responses).partitions).records), []
        for position, header in iterate_headers(content):
            if header.producer_id not in ids:
                continue
            identity = (ids.index(header.producer_id), header.producer_epoch, header.is_transactional)
            if header.is_control:
                one = marker_of_batch(content[position : position + header.size_bytes])
                assert one is not None
                found.append((*identity, one.control_type.name))
            else:
                found.append((*identity, header.base_sequence, header.records_count))
        return found

    def producer_of(self, name: str) -> Producer:
        return Producer(self.client, f"{self.prefix}-{name}", topic=self.topic, group=self.group)

    def _offsets(self) -> Iterator[tuple[str, Any]]:
        for version in range(5):
            producer = self.producer_of(f"v{version}")
            yield f"{version} not added", producer.commit(version)
            yield f"{version} added", producer.add_offsets()
            yield f"{version} first", producer.commit(version, 10 + version)
            yield f"{version} again", producer.commit(version, 20 + version)
            yield f"{version} pending", self.fetched()
            yield f"{version} ended", producer.end(COMMIT if version % 2 == 0 else ABORT)
            yield f"{version} counts", self.settled()
            yield f"{version} after the end", producer.commit(version)
            older = producer.epoch
            producer.init()
            newer, producer.epoch = producer.epoch, older
            yield f"{version} epochs", (older, newer)
            yield f"{version} fenced", producer.commit(version)
        implicit = self.producer_of("implicit")
        yield "5 not added", implicit.commit(5, 30)
        yield "5 state", implicit.state()
        yield "5 pending", self.fetched()
        yield "5 ended", implicit.end(COMMIT)
        yield "5 counts", self.settled()
        other = self.producer_of("other")
        other.transactional_id = f"{self.prefix}-nobody"
        for version in (2, 3, 4, 5):
            yield f"{version} unknown id", other.commit(version)
        other.transactional_id = f"{self.prefix}-other"
        other.producer_id += 1_000_000
        for version in (2, 3, 4, 5):
            yield f"{version} another producer", other.commit(version)
        partition = self.group_partition()
        ids = [implicit.producer_id]
        yield "batches of offsets", self.batches(OFFSETS, partition, ids)
        yield "producers of offsets", self.producers(OFFSETS, partition, ids)

    def _members(self) -> Iterator[tuple[str, Any]]:
        producer = self.producer_of("members")
        producer.add_offsets()
        for version in (3, 4, 5):
            yield f"{version} no group", producer.commit(version, group_id="")
            yield (
                f"{version} a generation of nobody",
                producer.commit(version, generation_id_or_member_epoch=4, member_id="m"),
            )
            yield (
                f"{version} of an instance",
                producer.commit(
                    version, generation_id_or_member_epoch=4, member_id="m", group_instance_id="i"
                ),
            )
        yield "members end", producer.end(ABORT)
        yield "members leave it", self.settled()

    def _markers(self) -> Iterator[tuple[str, Any]]:
        one, two = self.producer_of("one"), self.producer_of("two")
        two.init()
        ids = [one.producer_id, two.producer_id]
        yield "added", (one.add_partition(), two.add_partition())
        yield "sent", (one.send(0), one.send(1), two.send(0))
        yield "open", self.producers(self.topic, 0, ids)
        yield "ended", one.end(COMMIT)
        yield "one ended", self.producers(self.topic, 0, ids)
        two_0 = (two.producer_id, two.epoch)
        for version in (1, 2):
            yield f"{version} nothing", self.mark(version)
            yield (
                f"{version} nowhere",
                self.mark(version, marker(*two_0, ABORT, ("nowhere", 0), (self.topic, 9))),
            )
            yield (
                f"{version} older",
                self.mark(version, marker(two.producer_id, two.epoch - 1, ABORT, (self.topic, 0))),
            )
        yield "still open", self.producers(self.topic, 0, ids[1:])
        yield "hanging is aborted", self.mark(1, marker(*two_0, ABORT, (self.topic, 0), by=3))
        yield "is aborted", self.producers(self.topic, 0, ids[1:])
        yield "older coordinator", self.mark(1, marker(*two_0, ABORT, (self.topic, 0), by=2))
        yield "once more", self.mark(1, marker(*two_0, ABORT, (self.topic, 0), by=3))
        yield (
            "older transaction version",
            self.mark(2, marker(two.producer_id, two.epoch, ABORT, (self.topic, 0), by=3, version=1)),
        )
        yield "late record", two.send(1)
        fresh = 900_000_000 + one.producer_id
        yield "of nobody", self.mark(2, marker(fresh, 4, COMMIT, (self.topic, 1), version=2))
        yield "newer", self.mark(2, marker(fresh, 6, COMMIT, (self.topic, 1), version=2))
        yield "older of two", self.mark(2, marker(fresh, 5, COMMIT, (self.topic, 1), version=2))
        yield "nobody", self.producers(self.topic, 1, [fresh])
        yield (
            "two of one",
            self.mark(
                2,
                marker(fresh, 7, ABORT, (self.topic, 1)),
                marker(fresh, 8, COMMIT, (self.topic, 1), (self.topic, 0)),
            ),
        )
        yield "markers", self.batches(self.topic, 1, [fresh])
        yield "same epoch, ended", self.mark(2, marker(fresh, 8, COMMIT, (self.topic, 1), version=2))
        same = marker(*two_0, ABORT, (self.topic, 0), by=3, version=2)
        yield "same epoch, open", self.mark(2, same)
        yield "log", self.batches(self.topic, 0, ids)
        partition = self.group_partition()
        yield "offsets", self.mark(2, marker(fresh, 0, COMMIT, (OFFSETS, partition)))
        yield "no epoch", self.mark(2, marker(fresh, -1, COMMIT, (OFFSETS, partition), (self.topic, 1)))
        yield "no producer", self.mark(2, marker(-1, 0, COMMIT, (OFFSETS, partition), (self.topic, 1)))


def test_both_answer_the_same_about_offsets_and_markers_of_transactions(
    ottla: Server, reference: Server
) -> None:
    run = os.urandom(3).hex()
    with WireClient(ottla.bootstrap) as ours, WireClient(reference.bootstrap) as theirs:
        requests = TransactionalRequests(ours, run), TransactionalRequests(theirs, run)
        for answers in zip(*(one.answers() for one in requests), strict=True):
            assert answers[0] == answers[1]
