"""A leader's log, a coordinator, and a client whose requests may be delayed anywhere (KIP-890, KAFKA-12671).

No transaction that the coordinator has ended stays open in the log. The walks are random from a seed, not
from hypothesis, because failures here take seven steps in one order.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from ottla.logstore.disk import MemoryDisk
from ottla.logstore.log_config import LogConfig
from ottla.logstore.partition_log import PartitionLog
from ottla.logstore.record import ControlType, EndTransactionMarker, build_batch
from ottla.logstore.verification import Guard
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import ZERO_UUID, TopicPartition

PRODUCER = 7
NOW_MS = 1_000
WALKS, STEPS = 100, 60


@dataclass(slots=True)
class Sent:
    """A batch under way: to the leader, then (with a guard) to the coordinator and back."""

    epoch: int
    sequence: int
    guard: Guard | None = None
    admitted: bool | None = None  # None: not asked yet


class LateRequests:
    """A walk. The coordinator has three values; its decisions are Kafka's, reduced to one partition."""

    def __init__(self, chance: Random, version: int) -> None:
        self.chance = chance
        self.version = version
        self.log = PartitionLog.open(
            disk=MemoryDisk(),
            directory=Path("/data/t-0"),
            topic_partition=TopicPartition("t", 0),
            topic_id=ZERO_UUID,
            config=LogConfig(),
            now_ms=NOW_MS,
            clean_shutdown=False,
        )
        other = build_batch([(None, b"v", NOW_MS, ())])
        self.log.append_as_leader(other, leader_epoch=0, now_ms=NOW_MS)  # so that the log is not new
        self.epoch = self.sequence = 0
        self.is_ongoing = False
        self.marker_epoch: int | None = None  # the epoch of the marker that is not written yet
        self.last_marker_epoch = -1
        self.on_the_way: list[Sent] = []
        self.asking: list[Sent] = []

    def step(self) -> None:
        """Do one of the steps that are possible now."""
        self.chance.choice([do for do, can_be in self.actions().items() if can_be])()
        self.log.check_invariants()
        if not self.is_ongoing and self.marker_epoch is None:
            assert not self.is_open, "a transaction that the coordinator has ended"

    def actions(self) -> dict[Callable[[], None], bool]:
        answered = [one.admitted is not None for one in self.asking]
        return {
            self.add_partition: self.version == 0 and self.marker_epoch is None,
            self.send: self.version == 2 or self.is_ongoing,
            self.end: self.is_ongoing,
            self.receive: bool(self.on_the_way),
            self.receive_verification: any(answered),
            self.answer: not all(answered),
            self.write_the_marker: self.marker_epoch is not None,
            self.write_it_again: self.version == 2 and self.last_marker_epoch >= 0,
        }

    # The client.

    def add_partition(self) -> None:
        self.is_ongoing = True

    def send(self) -> None:
        self.on_the_way.append(Sent(self.epoch, self.sequence))
        self.sequence += 1

    def end(self) -> None:
        """End the transaction, even with batches under way: the client abandoned them, or it timed out."""
        self.is_ongoing = False
        if self.version == 2:
            self.epoch, self.sequence = self.epoch + 1, 0
        self.marker_epoch = self.epoch

    # The leader.

    def receive(self) -> None:
        sent = self.on_the_way.pop(self.chance.randrange(len(self.on_the_way)))
        try:
            sent.guard = self.log.begin_verification(
                PRODUCER, sent.epoch, sent.sequence, bumps_epoch=self.version == 2, now_ms=NOW_MS
            )
        except KafkaError as refusal:
            assert refusal.code is ErrorCode.INVALID_PRODUCER_EPOCH
            assert sent.epoch < self.epoch
            return
        if sent.guard is None:
            self.append(sent)
        else:
            self.asking.append(sent)

    def receive_verification(self) -> None:
        sent = self.chance.choice([one for one in self.asking if one.admitted is not None])
        self.asking.remove(sent)
        if sent.admitted:
            self.append(sent)

    def append(self, sent: Sent) -> None:
        batch = build_batch(
            [(None, b"v", NOW_MS, ())],
            producer_id=PRODUCER,
            producer_epoch=sent.epoch,
            base_sequence=sent.sequence,
            is_transactional=True,
        )
        try:
            self.log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS, guard=sent.guard)
        except KafkaError as refusal:
            assert refusal.code in (
                ErrorCode.INVALID_TXN_STATE,
                ErrorCode.INVALID_PRODUCER_EPOCH,
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            )
            return
        if self.version == 2:
            is_about_to_end = self.marker_epoch == sent.epoch + 1
            assert sent.epoch == self.epoch or is_about_to_end, "a batch of a transaction that has ended"

    # The coordinator.

    def answer(self) -> None:
        sent = self.chance.choice([one for one in self.asking if one.admitted is None])
        is_current = sent.epoch == self.epoch and self.marker_epoch is None
        if self.version == 2 and is_current:
            self.is_ongoing = True
        sent.admitted = is_current and self.is_ongoing

    def write_the_marker(self) -> None:
        assert self.marker_epoch is not None
        try:
            self.mark(self.marker_epoch)
        except KafkaError as refusal:
            raise AssertionError(f"the log rejects its coordinator's marker: {refusal}") from refusal
        self.last_marker_epoch, self.marker_epoch = self.marker_epoch, None

    def write_it_again(self) -> None:
        """Write a late copy of a marker.

        With older clients a late copy is rejected by its number (node/coordinators D42).
        """
        open_before = self.is_open
        try:
            self.mark(self.last_marker_epoch)
        except KafkaError as refusal:
            assert refusal.code is ErrorCode.INVALID_PRODUCER_EPOCH
        assert self.is_open == open_before, "a copy has ended a later transaction"

    def mark(self, epoch: int) -> None:
        self.log.append_marker(
            EndTransactionMarker(self.chance.choice(list(ControlType)), 0),
            producer_id=PRODUCER,
            producer_epoch=epoch,
            transaction_version=self.version,
            leader_epoch=0,
            now_ms=NOW_MS,
        )

    @property
    def is_open(self) -> bool:
        self.log.update_high_watermark(self.log.log_end_offset)
        return self.log.last_stable_offset < self.log.log_end_offset


@pytest.mark.slow
@pytest.mark.parametrize("version", [0, 2])
def test_a_transaction_ended_by_the_coordinator_is_not_open(version: int) -> None:
    for seed in range(WALKS):
        late = LateRequests(Random(seed), version)
        for number in range(STEPS):
            try:
                late.step()
            except AssertionError as failed:
                raise AssertionError(f"seed {seed}, step {number}: {failed}") from failed
